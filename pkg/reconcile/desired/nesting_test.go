package desired

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/manifest"
)

// vidraResourceNamed returns a VidraResource whose annotations name its holders.
func vidraResourceNamed(name string, holders ...string) *v1alpha1.VidraResource {
	vr := &v1alpha1.VidraResource{}
	vr.Name, vr.Annotations = name, map[string]string{}
	for _, holder := range holders {
		vr.Annotations[v1alpha1.OwnerAnnotationKey(holder)] = holder
	}
	return vr
}

// TestHoldersOf follows VidraResources to those whose manifests hold them, and does a
// bounded amount of work.
func TestHoldersOf(t *testing.T) {
	t.Parallel()
	chain := func(depth int) map[string][]string {
		named := map[string][]string{}
		for i := range depth {
			named[fmt.Sprintf("v%d", i)] = []string{fmt.Sprintf("v%d", i+1)}
		}
		return named
	}
	clique := map[string][]string{}
	for i := range 50 {
		for j := range 50 {
			clique[fmt.Sprintf("v%d", i)] = append(clique[fmt.Sprintf("v%d", i)], fmt.Sprintf("v%d", j))
		}
	}
	forged := map[string][]string{"v0": nil}
	for i := range 10_000 {
		forged["v0"] = append(forged["v0"], fmt.Sprintf("none-%d", i))
	}
	cases := map[string]struct {
		reason string
		named  map[string][]string
		most   int
		want   int
		err    string
	}{
		"None":   {"Nobody holds it.", map[string][]string{}, 0, 0, ""},
		"Chain":  {"Holders of holders count.", chain(5), 5, 5, ""},
		"Deep":   {"A chain without end is refused.", chain(100_000), maxHolders + 1, 0, "more than 128 VidraResources hold the VidraResource v0"},
		"Clique": {"Each one is considered once by each other one.", clique, 50 * 50, 50, ""},
		"Forged": {"A name that no VidraResource has is nobody.", forged, 10_000, 0, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			holds := func(holder string, _ *v1alpha1.VidraResource) (*v1alpha1.VidraResource, bool) {
				asked++
				return vidraResourceNamed(holder, tc.named[holder]...), holder[0] == 'v'
			}
			holders, err := HoldersOf(vidraResourceNamed("v0", tc.named["v0"]...), holds)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err, tc.reason)
			} else {
				require.NoError(t, err, tc.reason)
			}
			require.Len(t, holders, tc.want, tc.reason)
			require.LessOrEqual(t, asked, tc.most, tc.reason)
		})
	}
}

// TestHoldsItself refuses a VidraResource in its own manifest, and one that holds it.
func TestHoldsItself(t *testing.T) {
	t.Parallel()
	holding := func(name string) string {
		return "apiVersion: infrahub.operators.com/v1alpha1\nkind: VidraResource\nmetadata: {name: " + name + "}\nspec: {manifest: 'not: read'}\n"
	}
	cases := map[string]struct {
		reason, text, err string
	}{
		"Itself":  {"It would prune itself.", holding("a"), "holds the VidraResource a itself: take it out"},
		"Holder":  {"They would delete each other.", holding("b"), "holds the VidraResource b, whose manifest holds the VidraResource a: take one of them out"},
		"Another": {"What another one holds is checked when that one is read.", holding("c"), ""},
		"Kind":    {"Another kind may have the name.", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects, err := manifest.Parse(tc.text, manifest.Options{})
			require.NoError(t, err)
			err = holdsItself("a", []string{"b"}, objects)
			if tc.err == "" {
				require.NoError(t, err, tc.reason)
				return
			}
			require.ErrorContains(t, err, tc.err, tc.reason)
		})
	}
}
