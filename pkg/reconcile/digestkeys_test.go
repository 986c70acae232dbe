package reconcile

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// keyOfBytes is a key for tests.
func keyOfBytes(b byte) []byte { return bytes.Repeat([]byte{b}, digestKeyBytes) }

// TestSeal shows who can open what, and what can be read from a sealed text.
func TestSeal(t *testing.T) {
	t.Parallel()
	const text = "1:0123456789abcdefghijkl"
	one, two := digestKeys{keyOfBytes(1)}, digestKeys{keyOfBytes(2)}
	rotated := digestKeys{keyOfBytes(2), keyOfBytes(1)}
	sealed := one.seal("a", text)
	require.NotContains(t, sealed, text[2:])
	require.Equal(t, sealed, one.seal("a", text), "a status does not change without need")
	require.NotEqual(t, sealed, one.seal("b", text), "equal values at two places do not look equal")
	require.NotEqual(t, sealed, two.seal("a", text))
	require.Equal(t, rotated.seal("a", text), two.seal("a", text), "the current key seals")

	cases := map[string]struct {
		reason string
		keys   digestKeys
		place  string
		sealed string
		want   string
	}{
		"Same":        {"A restart opens what was sealed before.", one, "a", sealed, text},
		"Rotated":     {"The previous key opens.", rotated, "a", sealed, text},
		"Current":     {"So does the current one.", rotated, "a", two.seal("a", text), text},
		"Lost":        {"Without the key nothing is opened.", two, "a", sealed, ""},
		"Moved":       {"What was sealed for one object says nothing of another one.", one, "b", sealed, ""},
		"Empty":       {"Nothing was sealed.", one, "a", "", ""},
		"NotSealed":   {"It was not sealed.", one, "a", text, ""},
		"Short":       {"Somebody cut it.", one, "a", sealed[:20], ""},
		"Long":        {"Somebody lengthened it.", one, "a", sealed + strings.Repeat("A", 40), ""},
		"NoText":      {"Somebody wrote what is no base64.", one, "a", sealedPrefix + "%", ""},
		"Manipulated": {"Somebody changed it.", one, "a", sealed[:len(sealed)-2] + "AA", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := tc.keys.open(tc.place, tc.sealed)
			require.Equal(t, tc.want, got, tc.reason)
			require.Equal(t, tc.want != "", ok, tc.reason)
		})
	}
}

// TestSealedInventory shows what a new state makes of the inventory in a status, and the
// status of it.
func TestSealedInventory(t *testing.T) {
	t.Parallel()
	previous := randomDigestKey()
	keys := digestKeys{randomDigestKey(), previous}
	before, lost := digestKeys{previous}, digestKeys{randomDigestKey()}
	digest := ownership.Digest{1, 2, 3}.String()
	entryOfKind := func(kind, digest, configuration string) v1alpha1.ManagedResourceStatus {
		return v1alpha1.ManagedResourceStatus{APIVersion: "v1", Kind: kind, Namespace: "shop", Name: "a", Digest: digest, Configuration: configuration}
	}
	sealedWith := func(keys digestKeys, kind string) v1alpha1.ManagedResourceStatus {
		e := entryOfKind(kind, "", "")
		d, c := (&vrState{uid: "u"}).places(&e)
		return entryOfKind(kind, keys.seal(d, digest), keys.seal(c, "configuration"))
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
			require.Equal(t, tc.inside, *s.objects[identityOf(&tc.in)].entry, tc.reason)
			for range 2 {
				entries, _ := s.entries()
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
func sealedEntryOf(keys digestKeys, e v1alpha1.ManagedResourceStatus) v1alpha1.ManagedResourceStatus {
	d, _ := (&vrState{uid: "u"}).places(&e)
	e.Digest = keys.seal(d, e.Digest)
	return e
}

// TestKeysIn reads the Secret that holds the keys.
func TestKeysIn(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		data   map[string][]byte
		want   [][]byte
	}{
		"Current":  {"One key is enough.", map[string][]byte{"current": keyOfBytes(1)}, [][]byte{keyOfBytes(1)}},
		"Previous": {"The current one comes first, whatever the others are called.", map[string][]byte{"before": keyOfBytes(2), "current": keyOfBytes(1), "previous": keyOfBytes(3)}, [][]byte{keyOfBytes(1), keyOfBytes(2), keyOfBytes(3)}},
		"None":     {"There must be a current key.", map[string][]byte{"previous": keyOfBytes(1)}, nil},
		"Short":    {"A short key can be guessed.", map[string][]byte{"current": []byte("password")}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keys, why := keysIn(&corev1.Secret{Data: tc.data})
			if tc.want == nil {
				require.Contains(t, why, "correct it, and restart the operator", tc.reason)
				return
			}
			require.Empty(t, why, tc.reason)
			require.Equal(t, tc.want, [][]byte(keys), tc.reason)
		})
	}
}
