package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
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
		applies bool   // with server-side apply
		clear   bool
		stays   bool
	}{
		"Cleared":        {reason: "the API server makes up before-first-apply", clear: true},
		"Kubectl":        {reason: "kubectl apply owns all that it once sent", creator: "kubectl-client-side-apply"},
		"Create":         {reason: "kubectl create never writes again", creator: "kubectl-create"},
		"Helm":           {reason: "Helm 3 owns all that it once sent", creator: "helm"},
		"Oc":             {reason: "so does oc", creator: "oc"},
		"Terraform":      {reason: "the provider writes when a user runs it", creator: "HashiCorp"},
		"Live":           {reason: "a controller may want its field", creator: "some-controller", stays: true},
		"HelmController": {reason: "Flux writes by itself", creator: "helm-controller", stays: true},
		"ArgoCD":         {reason: "Argo CD writes by itself", creator: "argocd-controller", stays: true},
		"Flux":           {reason: "the next apply of Flux withdraws the field", creator: "kustomize-controller", applies: true, stays: true},
		"ServerSide":     {reason: "the next kubectl apply --server-side withdraws the field", creator: "kubectl", applies: true, stays: true},
		"Pulumi":         {reason: "so does the next pulumi up", creator: "pulumi-kubernetes-1234", applies: true, stays: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			obj := declaredObject(t, ns, twoKeys, "ConfigMap", "a")
			if tt.applies {
				require.NoError(t, edit(obj, types.ApplyPatchType, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"kept":"x","dropped":"x"}}`, client.FieldOwner(tt.creator)))
			} else if tt.creator != "" {
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
			if !tt.stays {
				require.NotContains(t, data, "dropped", tt.reason)
				return
			}
			require.Contains(t, data, "dropped", tt.reason)
			warned := awaitCondition(t, ns, metav1.Condition{Type: v1alpha1.ConditionWarnings, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonWarned})
			warning := condition(t, warned, v1alpha1.ConditionWarnings).Message
			require.Contains(t, warning, "data.dropped")
			require.NotContains(t, warning, "data.kept")
			require.Contains(t, warning, tt.creator)
			require.NoError(t, mergePatch(obj, `{"data":{"dropped":null}}`))
			await(t, func(c *assert.CollectT) {
				require.Nil(c, meta.FindStatusCondition(getVidraResource(c, ns).Status.Conditions, v1alpha1.ConditionWarnings), "the warning ends with the field")
			})
		})
	}
}

// TestStaleOwnersOfNamedTools names a tool of users with --people-tools: a field that it set leaves the object with the manifest, also in a list item and
// beside an Apply entry of Flux, which keeps its own field and is named.
//
// It is not parallel, because it stops the operator.
func TestStaleOwnersOfNamedTools(t *testing.T) {
	stopOperator(t)
	startAnother(t, "--people-tools=my-*")
	ns := newNamespace(t)
	manifest := func(more string) string {
		return "apiVersion: v1\nkind: Service\nmetadata:\n  name: a\nspec:\n  ports:\n  - {name: kept, port: 80, protocol: TCP}\n" + more
	}
	obj := declaredObject(t, ns, manifest("  - {name: mine, port: 81, protocol: TCP}\n"), "Service", "a")
	require.NoError(t, admin.Create(t.Context(), obj.DeepCopy(), client.FieldOwner("my-tool")))
	require.NoError(t, edit(obj, types.ApplyPatchType, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":{"ports":[{"name":"flux","port":82,"protocol":"TCP"}]}}`,
		client.FieldOwner("kustomize-controller")))
	newVidraResource(t, ns, manifest("  - {name: mine, port: 81, protocol: TCP}\n  - {name: flux, port: 82, protocol: TCP}\n"))
	awaitReady(t, ns)
	setManifest(t, ns, manifest(""))
	v := awaitCondition(t, ns, metav1.Condition{Type: v1alpha1.ConditionWarnings, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonWarned}, "kustomize-controller", `spec.ports[port=82,protocol="TCP"].name`)
	require.NotContains(t, condition(t, v, v1alpha1.ConditionWarnings).Message, "my-tool")
	var names []any
	ports, _, err := unstructured.NestedSlice(get(t, obj).Object, "spec", "ports")
	require.NoError(t, err)
	for _, port := range ports {
		names = append(names, port.(map[string]any)["name"])
	}
	require.ElementsMatch(t, []any{"kept", "flux"}, names)
}
