package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// newStrictKind makes a kind whose schema knows spec.color and spec.size, the latter
// of which cannot change, and returns an object of it.
func newStrictKind(t *testing.T) (crd *apiextensionsv1.CustomResourceDefinition, thing string) {
	t.Helper()
	crd, thing = newKind(t)
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{
		Type: "object",
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"color": {Type: "string"},
				"size":  {Type: "integer", XValidations: apiextensionsv1.ValidationRules{{Rule: "self == oldSelf"}}},
			}},
			"status": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"conditions": {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"type": {Type: "string"}, "status": {Type: "string"}, "reason": {Type: "string"}, "message": {Type: "string"},
					},
				}}},
			}},
		},
	}
	crd.Spec.Versions[0].Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
	require.NoError(t, admin.Create(t.Context(), crd.DeepCopy()))
	return crd, thing
}

// TestUnknownFields names a field that the kind does not have. A server-side apply of
// it is refused, which is better than to drop it: it is a slip of the pen.
func TestUnknownFields(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	_, thing := newStrictKind(t)
	newVidraResource(t, ns, manifests(configMap("c", "hello"), thing+"  colour: red\n"))
	awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid, "Thing "+ns+"/thing", "spec.colour", "not declared in schema")
	requireInOrder(t, ns, declared(t, ns, configMap("c", "hello"))[0])
	setManifest(t, ns, manifests(configMap("c", "hello"), thing))
	awaitReady(t, ns)
}

// TestNameThatIsRefused names an object whose name the API server does not take.
func TestNameThatIsRefused(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, manifests(configMap("c", "hello"), configMap("Not_a_name", "hello")))
	v := awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid, "ConfigMap "+ns+"/Not_a_name", "metadata.name")
	awaitEvent(t, v, corev1.EventTypeWarning, "ManifestInvalid", "Apply", "Not_a_name")
	requireInOrder(t, ns, declared(t, ns, configMap("c", "hello"))[0])
	setManifest(t, ns, configMap("c", "hello"))
	require.Len(t, awaitReady(t, ns).Status.ManagedResources, 1)
}

// TestWarnings reports in the status what the API server warns of.
func TestWarnings(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	require.NoError(t, admin.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/warn":"restricted"}}}`))))
	manifest := manifests(web, configMap("c", "hello"))
	newVidraResource(t, ns, manifest)
	awaitReady(t, ns)
	warned := metav1.Condition{Type: v1alpha1.ConditionWarnings, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonWarned}
	awaitCondition(t, ns, warned, "Deployment "+ns+"/web", "restricted")
	setManifest(t, ns, strings.Replace(manifest, "goodbye", "so long", 1))
	awaitReady(t, ns)
	awaitCondition(t, ns, warned, "Deployment "+ns+"/web", "restricted")

	setManifest(t, ns, configMap("c", "hello"))
	await(t, func(c *assert.CollectT) {
		v := getVidraResource(c, ns)
		require.Equal(c, v.Generation, v.Status.ObservedGeneration)
		require.Nil(c, meta.FindStatusCondition(v.Status.Conditions, v1alpha1.ConditionWarnings))
	})
}

// TestServerOfDestinationStays has the API server refuse another destination for
// objects that exist.
func TestServerOfDestinationStays(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	v := newVidraResource(t, ns, configMap("c", "hello"))
	awaitReady(t, ns)
	require.NoError(t, mergePatch(v, `{"spec":{"destination":{"server":"https://kubernetes.default.svc"}}}`), "the same cluster")
	awaitReady(t, ns)
	require.ErrorContains(t, mergePatch(v, `{"spec":{"destination":{"server":"https://elsewhere:6443"}}}`), "create another VidraResource")
	require.NoError(t, mergePatch(v, `{"spec":{"destination":{"server":null}}}`))
}
