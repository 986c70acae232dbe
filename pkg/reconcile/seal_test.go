package reconcile

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
)

// TestSealedInventory shows what a new state makes of the inventory in a status, and the
// status of it.
func TestSealedInventory(t *testing.T) {
	t.Parallel()
	previous := seal.NewKey()
	keys := seal.Keys{seal.NewKey(), previous}
	before, lost := seal.Keys{previous}, seal.Keys{seal.NewKey()}
	digest := ownership.Digest{1, 2, 3}.String()
	entryOfKind := func(kind, digest, configuration string) v1alpha1.ManagedResourceStatus {
		return v1alpha1.ManagedResourceStatus{APIVersion: "v1", Kind: kind, Namespace: "shop", Name: "a", Digest: digest, Configuration: configuration}
	}
	sealedWith := func(keys seal.Keys, kind string) v1alpha1.ManagedResourceStatus {
		e := entryOfKind(kind, "", "")
		d, c := (&plan.State{UID: "u"}).Places(&e)
		return entryOfKind(kind, keys.Seal(d, digest), keys.Seal(c, "configuration"))
	}
	cases := map[string]struct {
		reason           string
		in, inside, want v1alpha1.ManagedResourceStatus
	}{
		"ConfigMap":     {"What is not sensitive stays readable.", entryOfKind("ConfigMap", digest, "configuration"), entryOfKind("ConfigMap", digest, "configuration"), entryOfKind("ConfigMap", digest, "configuration")},
		"Secret":        {"A restart changes nothing.", sealedWith(keys, "Secret"), entryOfKind("Secret", digest, "configuration"), sealedWith(keys, "Secret")},
		"Upgrade":       {"What an older Vidra wrote is sealed.", entryOfKind("Secret", digest, "configuration"), entryOfKind("Secret", digest, "configuration"), sealedWith(keys, "Secret")},
		"Rotated":       {"What the previous key sealed is sealed with the current one.", sealedWith(before, "Secret"), entryOfKind("Secret", digest, "configuration"), sealedWith(keys, "Secret")},
		"StaysSealed":   {"What was sensitive stays so.", sealedWith(before, "ConfigMap"), entryOfKind("ConfigMap", digest, "configuration"), sealedWith(keys, "ConfigMap")},
		"KeyLost":       {"What cannot be opened is not known.", sealedWith(lost, "Secret"), entryOfKind("Secret", ownership.UnknownDigest, ""), entryOfKind("Secret", ownership.UnknownDigest, "")},
		"OtherVersion":  {"A digest of another version is sealed as well.", entryOfKind("Secret", "0:x", ""), entryOfKind("Secret", "0:x", ""), sealedEntryOf(keys, entryOfKind("Secret", "0:x", ""))},
		"WrittenByHand": {"A status that somebody else wrote breaks nothing.", entryOfKind("Secret", strings.Repeat("x", 99), ""), entryOfKind("Secret", strings.Repeat("x", 99), ""), entryOfKind("Secret", ownership.UnknownDigest, "")},
		"Recreated":     {"The configuration for which an object was deleted is sealed, too.", recreatedFor(sealedWith(keys, "Secret")), recreatedFor(entryOfKind("Secret", digest, "configuration")), recreatedFor(sealedWith(keys, "Secret"))},
		"NotApplied":    {"There is nothing to seal.", entryOfKind("Secret", "", ""), entryOfKind("Secret", "", ""), entryOfKind("Secret", "", "")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vr := &v1alpha1.VidraResource{}
			vr.UID, vr.Status.ManagedResources = "u", []v1alpha1.ManagedResourceStatus{tc.in}
			s := newOwnerState(vr, keys)
			require.Equal(t, tc.inside, *s.plan.Objects.ByID[object.IdentityOf(&tc.in)].Entry, tc.reason)
			for range 2 {
				entries := s.plan.Entries()
				require.Equal(t, []v1alpha1.ManagedResourceStatus{tc.want}, entries, tc.reason)
			}
		})
	}
}

// recreatedFor has an object deleted, to be created again, for its configuration.
func recreatedFor(e v1alpha1.ManagedResourceStatus) v1alpha1.ManagedResourceStatus {
	e.Recreated = &v1alpha1.RecreatedStatus{Configuration: e.Configuration, UID: "1"}
	return e
}

// sealedEntryOf seals what an entry has.
func sealedEntryOf(keys seal.Keys, e v1alpha1.ManagedResourceStatus) v1alpha1.ManagedResourceStatus {
	d, _ := (&plan.State{UID: "u"}).Places(&e)
	e.Digest = keys.Seal(d, e.Digest)
	return e
}

// TestSealedRevisions: the digests of revisions are sealed with the present key at the first read of a status. A digest of an unknown key stays.
func TestSealedRevisions(t *testing.T) {
	t.Parallel()
	previous := seal.NewKey()
	keys, lost := seal.Keys{seal.NewKey(), previous}, seal.Keys{seal.NewKey()}
	vr := &v1alpha1.VidraResource{}
	vr.UID = "u"
	unknown := lost.Seal(revisionPlace(vr), "one")
	vr.Status.Revision = &v1alpha1.RevisionStatus{Kept: []v1alpha1.AppliedRevision{
		{Number: 2, Digest: seal.Keys{previous}.Seal(revisionPlace(vr), "two")}, {Number: 1, Digest: unknown},
	}}
	kept := newOwnerState(vr, keys).revision.kept()
	require.Equal(t, keys.Seal(revisionPlace(vr), "two"), kept[0].Digest)
	require.Equal(t, unknown, kept[1].Digest)
}
