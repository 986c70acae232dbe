package trigger

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestApplyOfAnEarlierProcess has the inventory show the last apply, without its version.
func TestApplyOfAnEarlierProcess(t *testing.T) {
	cases := map[string]struct {
		reason string
		events []*unstructured.Unstructured
		drift  bool
	}{
		"Edit":          {"An edit of the object that this process has seen as expected.", []*unstructured.Unstructured{configMap("blue", "100"), configMap("red", "101")}, true},
		"Former":        {"The state is older than the one that was as expected.", []*unstructured.Unstructured{configMap("blue", "100"), configMap("red", "99")}, false},
		"Never as seen": {"The state may be an edit or older than the apply.", []*unstructured.Unstructured{configMap("red", "99")}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			applied := appliedAt("blue", "")
			applied.ResourceVersion = ""
			r.index.Load(owner, map[ObjectKey]Applied{key: applied})
			for _, event := range tc.events {
				r.event(t, event)
			}
			require.Equal(t, tc.drift, len(r.TakeCauses(owner).Objects) > 0, tc.reason)
			known, _ := r.index.Expected(owner, key)
			require.Equal(t, len(tc.events) > 1, known.ResourceVersion != "", "the version of the apply is at most that of the object as expected")
		})
	}
	t.Run("Store", func(t *testing.T) {
		r := newRig(t)
		kept := r.event(t, configMap("blue", "100")) // before the inventory is loaded
		applied := appliedAt("blue", "")
		r.index.Load(owner, map[ObjectKey]Applied{key: applied})
		require.True(t, r.index.AsExpected(owner, key, kept, true))
		known, _ := r.index.Expected(owner, key)
		require.Equal(t, "100", known.ResourceVersion)
		page := &unstructured.UnstructuredList{Items: []unstructured.Unstructured{*configMap("blue", "100")}}
		page.SetResourceVersion("102")
		r.NewListing("", configMaps, "", func() bool { return true }).Page(page)
		require.Contains(t, r.TakeCauses(owner).Suspects, key, "a digest of a status may be forged")
		r.apply("blue", "100", nil)
		r.NewListing("", configMaps, "", func() bool { return true }).Page(page)
		require.Empty(t, r.TakeCauses(owner).Suspects, "this process has compared it")
	})
}

// TestReleaseOfARefusedObject has the watch of an object be behind a refused apply. The owner is enqueued once the other manager has
// released the object, also if the watch shows the object first before that manager applied it, and then after its release.
func TestReleaseOfARefusedObject(t *testing.T) {
	const other = "vidra/other"
	of := func(version string, managers ...string) *unstructured.Unstructured {
		u := configMap("blue", version)
		var entries []any
		for _, m := range managers {
			entries = append(entries, map[string]any{"manager": m, "operation": "Apply", "fieldsV1": map[string]any{"f:data": map[string]any{"f:color": map[string]any{}}}})
		}
		require.NoError(t, unstructured.SetNestedSlice(u.Object, entries, "metadata", "managedFields"))
		return u
	}
	cases := map[string]struct {
		reason        string
		seen, present *unstructured.Unstructured
		enqueued      bool
	}{
		"Released":   {"The watch has shown the other manager.", of("100", other), of("101", manager), true},
		"Behind":     {"The watch has shown neither the manager nor our mark.", of("100"), of("103", manager), true},
		"Unchanged":  {"The other manager still owns the fields.", of("100", other), of("101", other), false},
		"Not behind": {"The object has changed, and no manager has.", of("100"), of("101"), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.index.Load(owner, nil)
			evidence, ok := EvidenceIn(r.event(t, tc.seen), other)
			require.True(t, ok)
			r.AwaitRefused(owner, map[ObjectKey]Evidence{key: evidence})
			r.event(t, tc.present)
			name, _ := r.next()
			require.Equal(t, tc.enqueued, name != "", tc.reason)
		})
	}
}
