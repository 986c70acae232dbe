package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestSuccessor has a VidraResource lose its finalizer and be deleted, so that its objects stay, and another one of its name be created, while the reconcile
// of the first one waits for a webhook: the second one gets neither the status nor the objects of the first one.
func TestSuccessor(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	w := stallWrites(t, ns, "slow")
	newVidraResource(t, ns, manifests(configMap("stays", "hello"), configMap("slow", "hello")))
	w.requireAsked(t, 1)
	await(t, func(c *assert.CollectT) { require.Equal(c, "hello", greeting(c, pageOf(t, ns, "stays"))) })
	var first *v1alpha1.VidraResource
	await(t, func(c *assert.CollectT) { // the first write of a process is refused anyway
		first = getVidraResource(c, ns)
		require.Len(c, first.Status.ManagedResources, 2)
	})
	require.EqualValues(t, 1, first.Generation, "as that of the second one")

	require.NoError(t, admin.Patch(t.Context(), first, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitGone(t, first)
	require.NoError(t, admin.Create(t.Context(), &v1alpha1.VidraResource{
		ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: v1alpha1.VidraResourceSpec{Destination: v1alpha1.Destination{Namespace: ns}, Manifest: configMap("own", "hello")},
	}))
	w.release()
	second := awaitReady(t, ns)
	require.NotEqual(t, first.UID, second.UID)
	for range 20 { // the removals of the second one would come soon
		second = getVidraResource(t, ns)
		require.Len(t, second.Status.ManagedResources, 1)
		require.Equal(t, "own", second.Status.ManagedResources[0].Name)
		time.Sleep(100 * time.Millisecond)
	}
	await(t, func(c *assert.CollectT) { require.Equal(c, "hello", greeting(c, pageOf(t, ns, "stays"))) })
}

// TestRemovedStatus has another client remove the whole status, and a manifest get a further object at the same time.
func TestRemovedStatus(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("one", "hello"))
	v := awaitReady(t, ns)
	for i := range 3 {
		require.NoError(t, admin.Status().Patch(t.Context(), v.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"status":null}`))))
		setManifest(t, ns, manifests(configMap("one", "hello"), configMap(fmt.Sprint("further-", i), "hello")))
		await(t, func(c *assert.CollectT) {
			now := getVidraResource(c, ns)
			require.Equal(c, "Applied", condition(c, now, v1alpha1.ConditionReady).Reason)
			require.Equal(c, now.Generation, now.Status.ObservedGeneration)
			require.Len(c, now.Status.ManagedResources, 2)
		})
	}
}
