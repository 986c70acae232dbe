package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// namespaced is a manifest with a Namespace and what lives in it.
func namespaced(namespace string) string {
	return manifests(fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n", namespace), web)
}

func TestDeletion(t *testing.T) {
	t.Parallel()
	ns := unique(t) // the manifest makes it
	newVidraResource(t, ns, namespaced(ns))
	v := awaitReady(t, ns)
	require.Len(t, v.Status.ManagedResources, 5)
	objs := declared(t, ns, namespaced(ns))

	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitGone(t, v)
	for _, obj := range objs {
		awaitGone(t, obj)
	}
	awaitEvent(t, v, corev1.EventTypeNormal, "Pruned", "Prune", "Deployment "+ns+"/web")
	awaitEvent(t, v, corev1.EventTypeNormal, "Pruned", "Prune", "Namespace "+ns)
}

// TestDeletionWithFailures deletes VidraResources that never got ready.
func TestDeletionWithFailures(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		broken string
		want   string
	}{
		"invalid object": {
			reason: "what was not accepted does not exist",
			broken: "apiVersion: v1\nkind: Service\nmetadata:\n  name: broken\nspec:\n  ports:\n  - port: 99999\n",
			want:   v1alpha1.ReasonManifestInvalid,
		},
		"no namespace": {
			reason: "nor does what has no place",
			broken: "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: broken\n  namespace: never-made\n",
			want:   v1alpha1.ReasonApplyFailed,
		},
		"no kind": {
			reason: "nor does what is of no kind",
			broken: "apiVersion: never.example.com/v1\nkind: Made\nmetadata:\n  name: broken\n",
			want:   v1alpha1.ReasonKindUnavailable,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, manifests(configMap("good", "hello"), tt.broken))
			v := awaitNotReady(t, ns, tt.want)
			require.NoError(t, deleteVidraResource(t.Context(), ns))
			awaitGone(t, v)
			awaitGone(t, declared(t, ns, configMap("good", "hello"))[0])
		})
	}
}

// TestDeletionWithUnreadableManifest removes what an earlier manifest made.
func TestDeletionWithUnreadableManifest(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("good", "hello"))
	v := awaitReady(t, ns)
	setManifest(t, ns, "{")
	awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid)
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitGone(t, v)
	awaitGone(t, declared(t, ns, configMap("good", "hello"))[0])
}

// TestDeletionWaitsForForeignFinalizers keeps the VidraResource until all of its
// objects are gone, and says what it waits for.
func TestDeletionWaitsForForeignFinalizers(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, manifests(configMap("page", "hello"), configMap("free", "hello")))
	awaitReady(t, ns)
	page := declared(t, ns, configMap("page", "hello"))[0]
	require.NoError(t, mergePatch(page, `{"metadata":{"finalizers":["example.com/wait"]}}`))
	t.Cleanup(func() { _ = mergePatch(page, `{"metadata":{"finalizers":null}}`) }) // it is gone if all went well

	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitGone(t, declared(t, ns, configMap("free", "hello"))[0])
	v := awaitNotReady(t, ns, v1alpha1.ReasonProgressing, "ConfigMap "+ns+"/page", "is being deleted")
	await(t, func(c *assert.CollectT) {
		v = getVidraResource(c, ns)
		require.Len(c, v.Status.ManagedResources, 1)
	})
	require.Equal(t, v1alpha1.ObjectDeleting, entry(t, v, "ConfigMap", "page").State)
	require.Contains(t, v.Finalizers, v1alpha1.Finalizer)
	require.Equal(t, []string{"example.com/wait"}, get(t, page).GetFinalizers(), "it is not ours to remove")

	// A person edits what is on its way out: Vidra does not create it again.
	mark := auditMark(t)
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"changed"}}`))
	require.NoError(t, mergePatch(page, `{"metadata":{"finalizers":null}}`))
	awaitGone(t, v)
	awaitGone(t, page)
	require.Empty(t, operatorSince(t, mark).ObjectsIn(ns).Only(verbIs("patch")))
}

// TestDeletionIsNotFoughtByHealing deletes a namespace together with what heals
// in it: nothing is recreated in the middle of the teardown.
func TestDeletionIsNotFoughtByHealing(t *testing.T) {
	t.Parallel()
	ns := unique(t)
	newVidraResource(t, ns, namespaced(ns))
	v := awaitReady(t, ns)
	mark := auditMark(t)
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	require.NoError(t, client.IgnoreNotFound(admin.Delete(t.Context(), namespace)))
	awaitGone(t, v)
	awaitGone(t, namespace)
	require.Empty(t, operatorSince(t, mark).ObjectsIn(ns).Only(verbIs("patch")))
}

// TestDeletionSaysWhatIsInTheWay names what the user has to look at when others left
// objects in a namespace, or of a kind, that goes.
func TestDeletionSaysWhatIsInTheWay(t *testing.T) {
	t.Parallel()
	ns := unique(t) // the manifest makes it
	crd := editedObject("CustomResourceDefinition", ns, "")
	newVidraResource(t, ns, manifests(namespaced(ns), crd))
	awaitReady(t, ns)
	kept := declared(t, ns, configMap("kept", "hello"))[0]
	thing := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": ns + ".example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "kept", "namespace": ns},
	}}
	for _, obj := range []*unstructured.Unstructured{kept, thing} {
		obj.SetFinalizers([]string{"example.com/wait"})
		await(t, func(c *assert.CollectT) { // the kind is served a moment after it is applied
			require.NoError(c, client.IgnoreAlreadyExists(admin.Create(t.Context(), obj)))
		})
		t.Cleanup(func() { _ = mergePatch(obj, `{"metadata":{"finalizers":null}}`) }) // it is gone if all went well
	}

	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitNotReady(t, ns, v1alpha1.ReasonProgressing,
		"Namespace "+ns+": is being deleted, and waits for its finalizers (kubernetes)", "example.com/wait in 2 resource instances",
		"CustomResourceDefinition things."+ns+".example.com: is being deleted, and waits for its finalizers (customresourcecleanup.apiextensions.k8s.io)",
		"CustomResource deletion is in progress")
	for _, obj := range []*unstructured.Unstructured{kept, thing} {
		require.NoError(t, mergePatch(obj, `{"metadata":{"finalizers":null}}`))
	}
	// The controllers of Kubernetes back off exponentially: they look again after as long as they have waited.
	awaitGoneFor(t, 5*time.Minute, getVidraResource(t, ns))
}
