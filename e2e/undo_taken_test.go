package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestEditOfATakenField: a client takes a field of the manifest by a forced apply, and another one changes it, or what
// goes with it, before that is reverted. The second client changes no field that Vidra still owns, but what it adds is in the way.
func TestEditOfATakenField(t *testing.T) {
	t.Parallel()
	const workload = `
  selector: {matchLabels: {app: taken}}
  template:
    metadata: {labels: {app: taken}}
    spec: {containers: [{name: web, image: "registry.invalid/web:1"}]}
`
	for name, tc := range map[string]struct {
		manifest, taken, edit string
	}{
		"Changed": {
			manifest: "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: taken}\nspec:\n  updateStrategy: {rollingUpdate: {maxUnavailable: 1}}" + workload,
			taken:    `{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":2}}}}`,
			edit:     `[{"op":"replace","path":"/spec/updateStrategy/rollingUpdate","value":{"maxSurge":1,"maxUnavailable":0}}]`,
		},
		"Removed": {
			manifest: "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: taken}\nspec: {minAvailable: 1, selector: {matchLabels: {app: taken}}}\n",
			taken:    `{"spec":{"minAvailable":2}}`,
			edit:     `[{"op":"remove","path":"/spec/minAvailable"},{"op":"add","path":"/spec/maxUnavailable","value":3}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			obj := declared(t, ns, tc.manifest)[0]
			newVidraResource(t, ns, tc.manifest)
			awaitReady(t, ns)
			changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend = true })
			await(t, func(c *assert.CollectT) { condition(c, getVidraResource(c, ns), v1alpha1.ConditionSuspended) })
			require.NoError(t, edit(obj, types.ApplyPatchType,
				`{"apiVersion":"`+obj.GetAPIVersion()+`","kind":"`+obj.GetKind()+`",`+tc.taken[1:], client.FieldOwner("person"), client.ForceOwnership))
			require.NoError(t, edit(obj, types.JSONPatchType, tc.edit, client.FieldOwner("kubectl-edit")))
			await(t, func(c *assert.CollectT) {
				require.Equal(c, "True", string(condition(c, getVidraResource(c, ns), v1alpha1.ConditionDrifted).Status))
			})
			changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend = false })
			awaitInOrder(t, ns, obj)
			for _, m := range get(t, obj).GetManagedFields() { // so nothing is left of it
				require.False(t, m.Subresource == "" && m.Manager == "kubectl-edit", "%s", m.FieldsV1)
			}
			awaitReady(t, ns)
		})
	}
}
