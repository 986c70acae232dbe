package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestVidraResourcesOfAnotherController writes a VidraResource as the InfrahubSync controller
// of the first operator does: it sets the finalizer itself and is the controller in an
// ownerReference, replaces the object as a whole, and knows no other field of the spec than
// the destination and the manifest. Vidra serves it like any other.
func TestVidraResourcesOfAnotherController(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	sync := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: ns}} // stands for the InfrahubSync
	require.NoError(t, admin.Create(t.Context(), sync))
	const name = "183c2696-244a-db4d-3835-c51c357bbaf3" // the ID of an artifact
	artifact := func(greeting string) map[string]any {
		return map[string]any{
			"destination": map[string]any{"server": v1alpha1.LocalServer, "namespace": ns, "reconcileOnEvents": true},
			"manifest":    "---\n" + configMap("page", greeting),
		}
	}
	written := &unstructured.Unstructured{Object: map[string]any{"spec": artifact("hello")}}
	written.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.Kind))
	written.SetName(name)
	written.SetFinalizers([]string{v1alpha1.Finalizer})
	written.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: sync.Name, UID: sync.UID,
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
	}})
	require.NoError(t, admin.Create(t.Context(), written, client.FieldOwner(firstOperator)))
	v := awaitReady(t, name)
	page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
	awaitInOrder(t, name, page)

	await(t, func(c *assert.CollectT) { // a conflict with a status of Vidra is tried again, as it does
		require.NoError(c, admin.Get(t.Context(), client.ObjectKeyFromObject(written), written))
		written.Object["spec"] = artifact("goodbye")
		require.NoError(c, admin.Update(t.Context(), written, client.FieldOwner(firstOperator)))
	})
	awaitReady(t, name)
	requireInOrder(t, name, declared(t, ns, configMap("page", "goodbye"))[0])

	require.NoError(t, deleteVidraResource(t.Context(), name))
	awaitGone(t, v)
	awaitGone(t, page)
}
