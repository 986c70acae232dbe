package status

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestPatch requires the patch from one status to another, and that the API server makes the other of the one.
func TestPatch(t *testing.T) {
	t.Parallel()
	one, other := v1alpha1.ManagedResourceStatus{Name: "one"}, v1alpha1.ManagedResourceStatus{Name: "other"}
	of := func(entries ...v1alpha1.ManagedResourceStatus) v1alpha1.VidraResourceStatus {
		return v1alpha1.VidraResourceStatus{ManagedResources: entries}
	}
	healed := metav1.Unix(1_000, 0).Rfc3339Copy()
	const uid = `{"op":"test","path":"/metadata/uid","value":"a"}`
	cases := map[string]struct {
		reason        string
		before, after v1alpha1.VidraResourceStatus
		version, want string
	}{
		"Same":      {"The inventory is not sent again.", of(one), of(one), "", ``},
		"First":     {"Another client may have written.", of(), v1alpha1.VidraResourceStatus{ObservedGeneration: 2}, "7", `,{"op":"replace","path":"/metadata/resourceVersion","value":"7"},{"op":"add","path":"/status","value":{"observedGeneration":2}}`},
		"Listed":    {"The first inventory.", of(), of(one), "", `,{"op":"add","path":"/status","value":{"managedResources":[{"kind":"","apiVersion":"","name":"one"}]}}`},
		"Inventory": {"A list is replaced as a whole.", of(one, other), of(other), "", `,{"op":"add","path":"/status/managedResources","value":[{"kind":"","apiVersion":"","name":"other"}]}`},
		"Emptied":   {"The field is removed, also if another client has removed it.", of(one), of(), "", `,{"op":"add","path":"/status/managedResources","value":""},{"op":"remove","path":"/status/managedResources"}`},
		"Field": {
			"A field is replaced as a whole.", v1alpha1.VidraResourceStatus{Drift: &v1alpha1.DriftStatus{Heals: 1_000_000, LastHealTime: &healed}, LastError: "it failed"},
			v1alpha1.VidraResourceStatus{Drift: &v1alpha1.DriftStatus{Heals: 1_000_001}}, "",
			`,{"op":"add","path":"/status/drift","value":{"heals":1000001}},{"op":"add","path":"/status/lastError","value":""},{"op":"remove","path":"/status/lastError"}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := Patch(tc.before, tc.after, "a", tc.version)
			require.NoError(t, err)
			require.JSONEq(t, "["+uid+tc.want+"]", string(text), tc.reason)
			patch, err := jsonpatch.DecodePatch(text)
			require.NoError(t, err)
			stored := func(uid types.UID) []byte {
				text, err := json.Marshal(v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{UID: uid, ResourceVersion: "6"}, Status: tc.before})
				require.NoError(t, err)
				return text
			}
			_, err = patch.Apply(stored("b"))
			require.Error(t, err, "another VidraResource of the name")
			patched, err := patch.Apply(stored("a"))
			require.NoError(t, err)
			got := v1alpha1.VidraResource{}
			require.NoError(t, json.Unmarshal(patched, &got))
			require.True(t, Same(tc.after, got.Status), "%s", patched)
		})
	}
}
