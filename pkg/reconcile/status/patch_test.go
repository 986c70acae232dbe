package status

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestMergePatch requires the patch that makes one status of another, and that the API server makes that of it.
func TestMergePatch(t *testing.T) {
	t.Parallel()
	one, other := v1alpha1.ManagedResourceStatus{Name: "one"}, v1alpha1.ManagedResourceStatus{Name: "other"}
	healed := metav1.Unix(1_000, 0).Rfc3339Copy()
	cases := map[string]struct {
		reason        string
		before, after v1alpha1.VidraResourceStatus
		version, want string
	}{
		"Same": {
			"The inventory is not sent again.", v1alpha1.VidraResourceStatus{ManagedResources: []v1alpha1.ManagedResourceStatus{one}},
			v1alpha1.VidraResourceStatus{ManagedResources: []v1alpha1.ManagedResourceStatus{one}}, "", `{"status":{}}`,
		},
		"First": {
			"Another client may have written.", v1alpha1.VidraResourceStatus{}, v1alpha1.VidraResourceStatus{ObservedGeneration: 2}, "7",
			`{"metadata":{"resourceVersion":"7"},"status":{"observedGeneration":2}}`,
		},
		"Inventory": {
			"A list is replaced as a whole.", v1alpha1.VidraResourceStatus{ManagedResources: []v1alpha1.ManagedResourceStatus{one, other}},
			v1alpha1.VidraResourceStatus{ManagedResources: []v1alpha1.ManagedResourceStatus{other}}, "",
			`{"status":{"managedResources":[{"kind":"","apiVersion":"","name":"other"}]}}`,
		},
		"Emptied": {
			"The field is removed.", v1alpha1.VidraResourceStatus{ManagedResources: []v1alpha1.ManagedResourceStatus{one}},
			v1alpha1.VidraResourceStatus{ManagedResources: []v1alpha1.ManagedResourceStatus{}}, "", `{"status":{"managedResources":null}}`,
		},
		"Part of a field": {
			"What is gone in it is removed.", v1alpha1.VidraResourceStatus{Drift: &v1alpha1.DriftStatus{Heals: 1_000_000, LastHealTime: &healed}},
			v1alpha1.VidraResourceStatus{Drift: &v1alpha1.DriftStatus{Heals: 1_000_001}}, "", `{"status":{"drift":{"heals":1000001,"lastHealTime":null}}}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			patch, err := MergePatch(tc.before, tc.after, tc.version)
			require.NoError(t, err)
			require.JSONEq(t, tc.want, string(patch), tc.reason)
			stored, err := json.Marshal(v1alpha1.VidraResource{Status: tc.before})
			require.NoError(t, err)
			stored, err = jsonpatch.MergePatch(stored, patch)
			require.NoError(t, err)
			got := v1alpha1.VidraResource{}
			require.NoError(t, json.Unmarshal(stored, &got))
			require.True(t, Same(tc.after, got.Status), "%s", stored)
		})
	}
}
