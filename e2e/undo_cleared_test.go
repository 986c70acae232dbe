package e2e

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// clearAll empties managedFields, in a JSON patch.
const clearAll = `{"op":"replace","path":"/metadata/managedFields","value":[{}]}`

// TestUndoWithoutManagedFields edits the structure of objects and clears managedFields with the
// same request, so that nothing records what the edit added. It is undone whole all the same,
// and what another manager had added before stays.
func TestUndoWithoutManagedFields(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason, manifest, kind, name, edit string
		// ours is true if only the entry of the VidraResource is removed, instead of all.
		ours bool
	}{
		"union": {
			reason: "the apply alone is invalid", manifest: parts, kind: "Deployment", name: "parts", edit: toHostPath,
		},
		"union, our entry alone": {
			reason: "what the edit added is recorded, what is ours is not", manifest: parts, kind: "Deployment", name: "parts", edit: toHostPath, ours: true,
		},
		"item of a list": {
			reason: "the apply alone leaves two containers", manifest: parts, kind: "Deployment", name: "parts",
			edit: `[{"op":"replace","path":"/spec/template/spec/containers/0/name","value":"www"}]`,
		},
		"item with allocated fields beside it": {
			reason: "the address of a Service has no owner, and it stays", manifest: port, kind: "Service", name: "port",
			edit: `[{"op":"replace","path":"/spec/ports/0/port","value":8080},{"op":"remove","path":"/spec/selector"}]`,
		},
		"fields of one struct": {
			reason: "a budget has one of the two", manifest: budget, kind: "PodDisruptionBudget", name: "budget",
			edit: `[{"op":"remove","path":"/spec/minAvailable"},{"op":"add","path":"/spec/maxUnavailable","value":1}]`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, tt.manifest)
			awaitReady(t, ns)
			obj := declaredObject(t, ns, tt.manifest, tt.kind, tt.name)
			require.NoError(t, edit(obj, types.MergePatchType, `{"metadata":{"annotations":{"example.com/injected":"yes"}}}`, client.FieldOwner("injector")))
			if tt.kind == "Deployment" {
				require.NoError(t, edit(obj, types.JSONPatchType,
					`[{"op":"add","path":"/spec/template/spec/containers/-","value":{"name":"sidecar","image":"registry.invalid/mesh:1"}}]`, client.FieldOwner("injector")))
			}
			before := get(t, obj)
			cleared := clearAll
			if tt.ours {
				i := slices.IndexFunc(before.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == v1alpha1.FieldManager(ns) })
				cleared = fmt.Sprintf(`{"op":"remove","path":"/metadata/managedFields/%d"}`, i)
			}
			require.NoError(t, jsonPatch(obj, "%s", "["+cleared+","+tt.edit[1:]))
			await(t, func(c *assert.CollectT) { // the order of containers is that of the last apply
				live := get(c, obj)
				require.True(c, contains(settled(live), settled(before)), "%s: something is missing: %s", tt.reason, difference("", settled(before), settled(live)))
				require.True(c, contains(settled(before), settled(live)), "%s: something is left of the edit: %s", tt.reason, difference("", settled(live), settled(before)))
				require.Contains(c, appliedBy(live), v1alpha1.FieldManager(ns))
			})
			awaitReady(t, ns)
		})
	}
}
