package trigger

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// versions are resourceVersions, and what a server may send in their place.
var versions = []string{
	"", "0", "1", "99", "100", "007", "+5", "-5", "abc", "1 ", "１",
	"18446744073709551615", "18446744073709551616", "99999999999999999999999",
}

func TestVersions(t *testing.T) {
	for _, a := range versions {
		require.Equal(t, a, newVersion(a).String(), "a version gives back its text")
		for _, b := range versions {
			want, err := resourceversion.CompareResourceVersion(a, b)
			got, ok := newVersion(a).compare(newVersion(b))
			require.Equal(t, err == nil, ok, "%q and %q", a, b)
			require.Equal(t, want, got, "%q and %q", a, b)
		}
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { newVersion("123456") }))
}

func TestUIDs(t *testing.T) {
	cases := map[string]struct {
		reason string
		id     types.UID
		asText bool
	}{
		"None":      {"After a restart, a UID may not be known.", "", false},
		"UUID":      {"The API server gives out UUIDs.", "6f1c2a52-9a0e-4b7c-8d1d-0123456789ab", false},
		"Uppercase": {"Another server may spell them otherwise.", "6F1C2A52-9A0E-4B7C-8D1D-0123456789AB", true},
		"NoDashes":  {"The dashes are part of the text.", "6f1c2a529a0e4b7c8d1d0123456789ab", true},
		"Zeros":     {"Zeros are a UID, not none.", "00000000-0000-0000-0000-000000000000", true},
		"Text":      {"A UID may be any text.", "u1", true},
		"NoHex":     {"A text of the right length is no UUID for that.", "6f1c2a52-9a0e-4b7c-8d1d-0123456789xy", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			u := newUID(tc.id)
			require.Equal(t, tc.id, u.get(), tc.reason)
			require.Equal(t, tc.asText, u.text != nil, tc.reason)
		})
	}
}

func TestKeysAndExpectationsGiveBackWhatTheyWereMadeOf(t *testing.T) {
	remote := key
	remote.Cluster = "west"
	require.Equal(t, remote, compact(remote).objectKey())
	require.NotEqual(t, compact(key), compact(remote))

	applied := appliedAt("blue", "100")
	require.Equal(t, applied, (&claim{holder: &holder{manager: manager}, expected: expect(applied)}).applied())
}

func TestInformersTakeSnapshotsForObjects(t *testing.T) {
	cases := map[string]struct{ namespace, name, version string }{
		"Namespaced":    {"shop", "settings", "42"},
		"ClusterScoped": {"", "settings", "42"},
		"OtherVersion":  {"shop", "settings", "abc"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{}
			u.SetNamespace(tc.namespace)
			u.SetName(tc.name)
			u.SetResourceVersion(tc.version)
			want, err := cache.DeletionHandlingMetaNamespaceKeyFunc(u)
			require.NoError(t, err)

			kept, err := newRig(t).TransformFor("", configMaps)(u)
			require.NoError(t, err)
			got, err := cache.DeletionHandlingMetaNamespaceKeyFunc(kept)
			require.NoError(t, err)
			require.Equal(t, want, got, "the place of an object in a store does not depend on what is kept of it")
			accessor, err := meta.Accessor(kept)
			require.NoError(t, err)
			require.Equal(t, tc.version, accessor.GetResourceVersion(), "by which an informer knows a resync")
		})
	}
}

func TestForgetting(t *testing.T) {
	other := Owner{Name: "other"}
	names := []string{"a", "b", "c", "d"}
	at := func(name string) ObjectKey { return ObjectKey{GVR: configMaps, Namespace: "shop", Name: name} }
	owns := func(x *Index, o Owner) (owned []string) {
		for _, name := range names {
			if _, known := x.Expected(o, at(name)); known {
				owned = append(owned, name)
			}
		}
		return owned
	}
	x := NewIndex()
	for _, o := range []Owner{owner, other} {
		for _, name := range names {
			x.Load(o, map[ObjectKey]Applied{at(name): {Manager: manager}})
		}
	}
	x.Forget(owner, at("b"))
	x.Forget(owner, at("b"))
	require.Equal(t, []string{"a", "c", "d"}, owns(x, owner))
	require.Equal(t, names, owns(x, other), "what owners share, each forgets for itself")
	x.Forget(other, at("d"))
	x.Forget(other, at("a"))

	x.forgetOwner(owner)
	require.Empty(t, owns(x, owner))
	require.False(t, x.Loaded(owner))
	require.Equal(t, []string{"b", "c"}, owns(x, other))

	x.Forget(other, at("c"))
	x.Forget(other, at("b"))
	require.True(t, x.Loaded(other), "an owner without objects is known")
	require.Empty(t, x.claims, "and nothing is left of them")
}
