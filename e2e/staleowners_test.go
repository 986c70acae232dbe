package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// twoKeys is a ConfigMap of which the manifest drops the key "dropped".
const twoKeys = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  kept: x\n  dropped: x\n"

// A field that leaves the manifest leaves the object, although an entry of managedFields names it
// that the API server made up, or that a client of users wrote without server-side apply.
func TestDroppedFieldsOfStaleOwners(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason  string
		creator string // the client that created the object; empty for Vidra
		clear   bool
		stays   bool
	}{
		"Cleared": {reason: "the API server makes up before-first-apply", clear: true},
		"Kubectl": {reason: "kubectl apply owns all that it once sent", creator: "kubectl-client-side-apply"},
		"Create":  {reason: "kubectl create never writes again", creator: "kubectl-create"},
		"Helm":    {reason: "Helm 3 owns all that it once sent", creator: "helm"},
		"Live":    {reason: "a controller may want its field", creator: "some-controller", stays: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			obj := declaredObject(t, ns, twoKeys, "ConfigMap", "a")
			if tt.creator != "" {
				require.NoError(t, admin.Create(t.Context(), obj.DeepCopy(), client.FieldOwner(tt.creator)))
			}
			newVidraResource(t, ns, twoKeys)
			awaitReady(t, ns)
			if tt.clear {
				require.NoError(t, mergePatch(obj, `{"metadata":{"managedFields":[{}]}}`))
				awaitInOrder(t, ns, obj)
			}
			setManifest(t, ns, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  kept: x\n")
			awaitReady(t, ns)
			data, _, err := unstructured.NestedStringMap(get(t, obj).Object, "data")
			require.NoError(t, err)
			require.Equal(t, "x", data["kept"])
			if tt.stays {
				require.Contains(t, data, "dropped", tt.reason)
			} else {
				require.NotContains(t, data, "dropped", tt.reason)
			}
		})
	}
}
