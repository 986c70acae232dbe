package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// resolver has two ports with one number, and protocols that the first ones leave out: TCP is the default.
const resolver = `apiVersion: v1
kind: Service
metadata: {name: resolver}
spec:
  selector: {app: resolver}
  ports:
  - {name: dns, port: 53}
  - {name: dns-udp, port: 53, protocol: UDP}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: resolver}
spec:
  replicas: 0
  selector: {matchLabels: {app: resolver}}
  template:
    metadata: {labels: {app: resolver}}
    spec:
      containers:
      - name: dns
        image: registry.invalid/dns:1
        ports:
        - {containerPort: 53}
        - {containerPort: 53, protocol: UDP}
`

// portsOf returns the ports of a Service.
func portsOf(t require.TestingT, service *unstructured.Unstructured) []any {
	ports, _, err := unstructured.NestedSlice(get(t, service).Object, "spec", "ports")
	require.NoError(t, err)
	return ports
}

// TestDefaultedKeyBesideAnother edits a port whose protocol the manifest leaves out, beside one of another protocol. The edit is undone whole.
func TestDefaultedKeyBesideAnother(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, resolver)
	awaitReady(t, ns)
	for kind, path := range map[string]string{"Service": "/spec/ports/0/port", "Deployment": "/spec/template/spec/containers/0/ports/0/containerPort"} {
		obj := declaredObject(t, ns, resolver, kind, "resolver")
		before := get(t, obj)
		require.NoError(t, jsonPatch(obj, `[{"op":"replace","path":%q,"value":5353}]`, path))
		undone(t, before)
	}
}

// TestDefaultedKeyAndIgnoreRules leaves one of two ports with one number to others, by its path or by its manager. It stays, and edits of
// the other one are reverted.
func TestDefaultedKeyAndIgnoreRules(t *testing.T) {
	t.Parallel()
	t.Run("Path", func(t *testing.T) {
		t.Parallel()
		ns := newNamespace(t)
		newVidraResource(t, ns, resolver)
		awaitReady(t, ns)
		service := declaredObject(t, ns, resolver, "Service", "resolver")
		changeSpec(t, ns, func(spec *v1alpha1.VidraResourceSpec) {
			spec.Drift = &v1alpha1.DriftPolicy{Ignore: []v1alpha1.IgnoreRule{{Target: v1alpha1.IgnoreTarget{Kind: "Service"}, Paths: []string{"/spec/ports/[protocol=UDP]"}}}}
		})
		awaitReady(t, ns)
		require.Len(t, portsOf(t, service), 2, "a port that is left to others stays")
		require.NotContains(t, ownedBy(t, service, "vidra/"+ns), "UDP")
	})
	t.Run("Manager", func(t *testing.T) {
		t.Parallel()
		ns := newNamespace(t)
		const one = "apiVersion: v1\nkind: Service\nmetadata: {name: resolver}\nspec:\n  selector: {app: resolver}\n  ports:\n  - {name: dns, port: 53, targetPort: 53}\n"
		newVidraResource(t, ns, one, ignoring(v1alpha1.IgnoreRule{Managers: []string{"mesh"}}))
		awaitReady(t, ns)
		service := declaredObject(t, ns, one, "Service", "resolver")
		added := `[{"op":"add","path":"/spec/ports/-","value":{"name":"dns-udp","port":53,"protocol":"UDP","targetPort":54}}]`
		require.NoError(t, edit(service, types.JSONPatchType, added, client.FieldOwner("mesh")))
		require.NoError(t, mergePatch(service, `{"spec":{"selector":{"app":"other"}}}`))
		await(t, func(c *assert.CollectT) { // an apply finds the port of the other manager
			app, _, err := unstructured.NestedString(get(c, service).Object, "spec", "selector", "app")
			require.NoError(c, err)
			require.Equal(c, "resolver", app)
		})
		require.NoError(t, jsonPatch(service, "%s", `[{"op":"replace","path":"/spec/ports/0/targetPort","value":9}]`))
		await(t, func(c *assert.CollectT) {
			ports := portsOf(c, service)
			require.Len(c, ports, 2, "no port is removed")
			require.EqualValues(c, 53, ports[0].(map[string]any)["targetPort"])
		})
	})
}
