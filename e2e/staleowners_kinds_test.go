package e2e

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestDroppedValuesOfStaleOwners drops values of unlike types from manifests, which an entry of kubectl co-owns, or one that the API server made up after
// the managedFields were cleared: each leaves the object, with Ready=True and without a warning.
func TestDroppedValuesOfStaleOwners(t *testing.T) {
	t.Parallel()
	crd, _ := newKind(t)
	preserve := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"routes": {
				Type: "array", XListType: ptr.To("map"), XListMapKeys: []string{"host", "path"},
				Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Required: []string{"host", "path"}, Properties: map[string]apiextensionsv1.JSONSchemaProps{"host": text, "path": text, "to": text},
				}},
			},
			"names":  {Type: "array", XListType: ptr.To("set"), Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &text}},
			"groups": {Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Schema: &text}}}},
			"whole":  {Type: "array", XListType: ptr.To("atomic"), Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &text}},
			"free":   preserve,
			"size":   {Type: "integer"},
		}},
	}}
	require.NoError(t, admin.Create(t.Context(), crd.DeepCopy()))
	await(t, func(c *assert.CollectT) { // the kind is served a moment later
		_, err := admin.RESTMapper().RESTMapping(schema.GroupKind{Group: crd.Spec.Group, Kind: "Thing"}, "v1")
		require.NoError(c, err)
	})
	thing := "apiVersion: " + crd.Spec.Group + "/v1\nkind: Thing\nmetadata:\n  name: a\nspec:\n  size: 1\n"
	const workload = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: a\nspec:\n  replicas: 0\n  selector: {matchLabels: {app: a}}\n  template:\n    metadata: {labels: {app: a}}\n    spec:\n" +
		"      containers:\n      - name: web\n        image: registry.invalid/web:1\n"
	cases := map[string]struct {
		kind, base, dropped string
		// path leads to the parent of the dropped value, and gone is the dropped value in its JSON.
		path []string
		gone string
	}{
		"ItemOfTwoKeys": {"Thing", thing + "  routes:\n  - {host: a, path: /, to: x}\n", "  - {host: a, path: /b, to: other}\n", []string{"spec"}, `"/b"`},
		"FieldOfItem":   {"Thing", thing + "  routes:\n  - host: a\n    path: /\n", "    to: other\n", []string{"spec"}, `"to"`},
		"ItemOfSet":     {"Thing", thing + "  names: [one", ", two", []string{"spec"}, `"two"`},
		"MapOfMaps":     {"Thing", thing + "  groups:\n    a:\n      b: c\n", "      d: e\n", []string{"spec"}, `"d"`},
		"WholeMap":      {"Thing", thing + "  groups:\n    a: {b: c}\n", "    x: {y: z}\n", []string{"spec"}, `"x"`},
		"AtomicList":    {"Thing", thing, "  whole: [a, b]\n", []string{"spec"}, `"whole"`},
		"Schemaless":    {"Thing", thing + "  free:\n    a: 1\n", "    b: {c: [1, {d: e}]}\n", []string{"spec"}, `"b"`},
		"Annotation":    {"Thing", strings.Replace(thing, "  name: a\n", "  name: a\n  annotations:\n    example.com/kept: a\n    ANCHOR\n", 1), "example.com/dropped: b", []string{"metadata"}, "example.com/dropped"},
		"Finalizer":     {"Thing", strings.Replace(thing, "  name: a\n", "  name: a\n  finalizers: [example.com/kept, ANCHOR]\n", 1), "example.com/dropped", []string{"metadata"}, "example.com/dropped\""},
		"Quantity":      {"Deployment", workload + "        resources:\n          limits:\n            cpu: \"1\"\n", "            memory: 1Gi\n", []string{"spec"}, `"memory"`},
		"Probe":         {"Deployment", workload, "        livenessProbe:\n          tcpSocket: {port: 80}\n", []string{"spec"}, `"livenessProbe"`},
		"Variable":      {"Deployment", workload + "        env:\n        - {name: A, value: a}\n", "        - {name: B, value: b}\n", []string{"spec"}, `"B"`},
	}
	for name, tc := range cases {
		for _, stale := range []string{"Kubectl", "Cleared"} {
			t.Run(name+stale, func(t *testing.T) {
				t.Parallel()
				ns := newNamespace(t)
				manifest := func(dropped string) string {
					if strings.Contains(tc.base, "ANCHOR") {
						return strings.NewReplacer("    ANCHOR\n", "    "+dropped+"\n", ", ANCHOR", map[bool]string{true: ", " + dropped}[dropped != ""]).Replace(tc.base)
					}
					return tc.base + dropped + map[bool]string{true: "]\n"}[strings.HasSuffix(tc.base, "[one")]
				}
				whole, cut := manifest(tc.dropped), manifest("")
				obj := declaredObject(t, ns, whole, tc.kind, "a")
				if stale == "Kubectl" {
					await(t, func(c *assert.CollectT) { // the kind may not be served yet
						require.NoError(c, client.IgnoreAlreadyExists(admin.Create(context.Background(), obj.DeepCopy(), client.FieldOwner("kubectl-client-side-apply"))))
					})
				}
				newVidraResource(t, ns, whole, func(v *v1alpha1.VidraResource) { v.Spec.DeletionPolicy = v1alpha1.DeletionOrphan })
				t.Cleanup(func() { _ = mergePatch(obj.DeepCopy(), `{"metadata":{"finalizers":null}}`) }) // the kind is deleted at last
				cluster.AwaitReadyFor(t, 2*patience, ns)
				if stale == "Cleared" {
					require.NoError(t, mergePatch(obj.DeepCopy(), `{"metadata":{"managedFields":[{}]}}`))
					awaitInOrder(t, ns, obj)
				}
				setManifest(t, ns, cut)
				v := awaitReady(t, ns)
				live := get(t, obj)
				part, _, err := unstructured.NestedMap(live.Object, tc.path...)
				require.NoError(t, err)
				delete(part, "managedFields")
				delete(part, "name")
				encoded, err := (&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Part", "part": part}}).MarshalJSON()
				require.NoError(t, err)
				require.NotContains(t, string(encoded), tc.gone)
				for _, c := range v.Status.Conditions {
					require.NotEqual(t, v1alpha1.ConditionWarnings, c.Type, c.Message)
				}
			})
		}
	}
}

// TestDroppedReplicasAfterScale drops the replicas that kubectl scale co-owns through the subresource: where they stay, the warning names kubectl.
func TestDroppedReplicasAfterScale(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	manifest := func(replicas string) string {
		return "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: a\nspec:\n" + replicas + "  selector: {matchLabels: {app: a}}\n  template:\n    metadata: {labels: {app: a}}\n    spec:\n" +
			"      containers: [{name: web, image: \"registry.invalid/web:1\"}]\n"
	}
	newVidraResource(t, ns, manifest("  replicas: 1\n"), withDrift(v1alpha1.DriftPolicy{Mode: v1alpha1.DriftWarn}))
	awaitReady(t, ns)
	obj := declaredObject(t, ns, manifest(""), "Deployment", "a")
	scale := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "autoscaling/v1", "kind": "Scale"}}
	require.NoError(t, admin.SubResource("scale").Patch(t.Context(), obj.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":2}}`)),
		client.FieldOwner("kubectl"), &client.SubResourcePatchOptions{SubResourceBody: scale}))
	awaitCondition(t, ns, metav1.Condition{Type: v1alpha1.ConditionDrifted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDriftDetected})
	setManifest(t, ns, manifest("  replicas: 2\n"))
	awaitReady(t, ns)
	setManifest(t, ns, manifest(""))
	awaitReady(t, ns)
	replicas, _, err := unstructured.NestedInt64(get(t, obj).Object, "spec", "replicas")
	require.NoError(t, err)
	if replicas == 1 {
		return // removed, and the default of the API server
	}
	require.EqualValues(t, 2, replicas)
	awaitCondition(t, ns, metav1.Condition{Type: v1alpha1.ConditionWarnings, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonWarned}, "spec.replicas", "kubectl")
}
