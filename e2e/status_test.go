package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// editStatus edits a status as `kubectl edit --subresource=status` does.
func editStatus(t *testing.T, name, patch string) {
	t.Helper()
	v := getVidraResource(t, name)
	require.NoError(t, admin.Status().Patch(t.Context(), v, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("kubectl-edit")))
}

// forgedEntry is an entry of the inventory for an object, as another client writes it.
func forgedEntry(obj client.Object, uid types.UID) v1alpha1.ManagedResourceStatus {
	return v1alpha1.ManagedResourceStatus{
		APIVersion: "v1", Kind: "ConfigMap", Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: string(uid), State: v1alpha1.ObjectApplied,
	}
}

// TestStatusOfAnotherClient has another client write the status of a VidraResource. It is
// put right within seconds, and what leaves the manifest afterwards is pruned.
func TestStatusOfAnotherClient(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ reason, patch string }{
		"emptied":             {"nothing of it is forgotten", `{"status":null}`},
		"inventory emptied":   {"what is to be pruned one day is in it", `{"status":{"managedResources":[]}}`},
		"inventory removed":   {"what is to be pruned one day is in it", `{"status":{"managedResources":null,"objects":0}}`},
		"condition forged":    {"Ready is what Vidra says", `{"status":{"conditions":[],"DeployState":"Failed","lastError":"forged"}}`},
		"entry forged":        {"it is not Vidra's", `{"status":{"managedResources":[{"apiVersion":"v1","kind":"Namespace","name":"kube-system"}]}}`},
		"generation forged":   {"it is what Vidra has read", `{"status":{"observedGeneration":4711}}`},
		"digest of an object": {"it is what Vidra applied", `{"status":{"managedResources":[{"apiVersion":"v1","kind":"ConfigMap","namespace":"x","name":"page","uid":"x","digest":"1:AAAAAAAAAAAAAAAAAAAAAA"}]}}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, manifests(configMap("page", "hello"), configMap("stays", "hello")))
			before := awaitReady(t, ns)
			for range 2 {
				editStatus(t, ns, tc.patch)
				start := time.Now()
				await(t, func(c *assert.CollectT) {
					require.Equal(c, before.Status, getVidraResource(c, ns).Status)
				}, tc.reason)
				require.Less(t, time.Since(start), 15*time.Second)
			}
			setManifest(t, ns, configMap("stays", "hello"))
			awaitGone(t, declared(t, ns, configMap("page", "hello"))[0])
			awaitReady(t, ns)
		})
	}
}

// TestStatusAfterALostAnswer loses the answer to the first status of a VidraResource, one of whose objects is refused then and applied slowly by the next
// reconcile. The status has all its fields at the end. It is not parallel: it stops the operator.
func TestStatusAfterALostAnswer(t *testing.T) {
	needsOwnControlPlane(t, faultsInjected)
	stopOperator(t)
	proxy, through := proxied(t)
	startAnother(t, through)
	ns := newNamespace(t)
	lost := proxy.Inject(faultproxy.Match{Where: func(q faultproxy.Request) bool {
		return q.Verb == "patch" && q.Resource == v1alpha1.Resource.Resource && q.Subresource == "status" && q.Name == ns
	}}, faultproxy.CutAfter(0).Times(1))
	slow := faultproxy.Match{Where: func(q faultproxy.Request) bool {
		return q.Verb == "patch" && q.Resource == "configmaps" && q.Namespace == ns && q.Name == "slow"
	}}
	proxy.Inject(slow, faultproxy.Delay(3*time.Second))
	proxy.Inject(slow, faultproxy.Status(apierrors.NewServiceUnavailable("away")).Times(1))
	newVidraResource(t, ns, manifests(configMap("page", "hello"), configMap("slow", "hello")))
	awaitReady(t, ns) // of its generation
	require.Equal(t, 1, lost.Hits())
}

// TestForgedInventory forges entries in an inventory while Vidra does not run, so that it
// cannot know that they are not its own. It removes none of the objects, because they are
// not its own by managedFields. It is not parallel: it stops the operator.
func TestForgedInventory(t *testing.T) {
	ns := newNamespace(t)
	other := ns + "-other"
	newVidraResource(t, ns, configMap("page", "hello"))
	newVidraResource(t, ns, configMap("of-another", "hello"), named(other))
	awaitReady(t, ns)
	awaitReady(t, other)
	page := get(t, declared(t, ns, configMap("page", "hello"))[0])
	stopOperator(t)

	made := map[string]func(u *unstructured.Unstructured){
		"foreign":  func(*unstructured.Unstructured) {},
		"labelled": func(u *unstructured.Unstructured) { u.SetLabels(page.GetLabels()) },
		"copied": func(u *unstructured.Unstructured) {
			u.SetLabels(page.GetLabels())
			u.SetAnnotations(page.GetAnnotations())
		},
		"listed": func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{v1alpha1.OwnerAnnotation: ns}) },
	}
	v := getVidraResource(t, ns)
	objs := map[string]*unstructured.Unstructured{"of-another": get(t, declared(t, ns, configMap("of-another", "hello"))[0])}
	for name, prepare := range made {
		obj := declared(t, ns, configMap(name, "hello"))[0]
		prepare(obj)
		require.NoError(t, admin.Create(t.Context(), obj))
		objs[name] = get(t, obj)
	}
	for _, obj := range objs {
		v.Status.ManagedResources = append(v.Status.ManagedResources, forgedEntry(obj, ""), forgedEntry(obj, obj.GetUID()))
	}
	require.NoError(t, admin.Status().Update(t.Context(), v))

	startOperator(t)
	await(t, func(c *assert.CollectT) {
		require.Len(c, getVidraResource(c, ns).Status.ManagedResources, 1, "what is not its own leaves the inventory")
	})
	awaitReady(t, ns)
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitGone(t, page)
	for name, obj := range objs {
		require.Equal(t, obj.GetUID(), get(t, obj).GetUID(), name)
		require.Nil(t, get(t, obj).GetDeletionTimestamp(), name)
	}
	require.False(t, apierrors.IsNotFound(admin.Get(t.Context(), client.ObjectKey{Name: other}, &v1alpha1.VidraResource{})))
}

// TestStatusEmptiedWhileVidraIsDown has another client empty a status while Vidra does not
// run. What leaves the manifest meanwhile is pruned all the same, if its kind is still in
// the manifest, and what a VidraResource has that is deleted meanwhile is removed. It is
// not parallel: it stops the operator.
func TestStatusEmptiedWhileVidraIsDown(t *testing.T) {
	ns := newNamespace(t)
	deleted := ns + "-deleted"
	newVidraResource(t, ns, manifests(configMap("page", "hello"), configMap("stays", "hello")))
	gone := newVidraResource(t, ns, configMap("other", "hello"), named(deleted))
	awaitReady(t, ns)
	awaitReady(t, deleted)
	stays := get(t, declared(t, ns, configMap("stays", "hello"))[0])
	stopOperator(t)
	for _, name := range []string{ns, deleted} {
		editStatus(t, name, `{"status":null}`)
	}
	setManifest(t, ns, configMap("stays", "hello"))
	require.NoError(t, deleteVidraResource(t.Context(), deleted))

	startOperator(t)
	awaitGone(t, gone)
	awaitGone(t, declared(t, ns, configMap("other", "hello"))[0])
	awaitGone(t, declared(t, ns, configMap("page", "hello"))[0])
	v := awaitReady(t, ns)
	require.Len(t, v.Status.ManagedResources, 1)
	require.Equal(t, stays.GetUID(), get(t, stays).GetUID())
}

// TestCopyWhileTheInventoryIsLost empties the status of a VidraResource while Vidra is down, and a backup has restored one of its objects with managedFields
// into another namespace: the copy stays.
func TestCopyWhileTheInventoryIsLost(t *testing.T) {
	ns, other := newNamespace(t), newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello"))
	awaitReady(t, ns)
	page := get(t, declared(t, ns, configMap("page", "hello"))[0])
	stopOperator(t)
	restored := page.DeepCopy()
	entries := restored.GetManagedFields()
	for i := range entries {
		entries[i].Time = &metav1.Time{Time: entries[i].Time.Add(-time.Hour)}
	}
	restored.SetNamespace(other)
	restored.SetManagedFields(nil)
	restored.SetResourceVersion("")
	restored.SetUID("")
	require.NoError(t, admin.Create(t.Context(), restored))
	restored.SetManagedFields(entries)
	require.NoError(t, admin.Update(t.Context(), restored))
	require.Equal(t, []string{"vidra/" + ns}, appliedBy(get(t, restored)))
	editStatus(t, ns, `{"status":null}`)
	startOperator(t)
	awaitReady(t, ns)
	await(t, func(c *assert.CollectT) { require.Len(c, getVidraResource(c, ns).Status.ManagedResources, 1) })
	require.Never(t, func() bool {
		return get(t, restored).GetUID() != restored.GetUID() || get(t, restored).GetDeletionTimestamp() != nil
	}, 5*time.Second, time.Second)
}

// TestObjectsOfAFormerVidraResource kills Vidra between the finalizer of a VidraResource and its first status. An object of a former VidraResource of its
// name, which ended without its finalizer, stays: the inventory is no lost one.
func TestObjectsOfAFormerVidraResource(t *testing.T) {
	ns := newNamespace(t)
	former := newVidraResource(t, ns, manifests(configMap("page", "hello"), configMap("stays", "hello")))
	awaitReady(t, ns)
	page := get(t, declared(t, ns, configMap("page", "hello"))[0])
	stopOperator(t)
	require.NoError(t, mergePatch(former, `{"metadata":{"finalizers":null}}`))
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitGone(t, former)
	time.Sleep(time.Second) // the API server counts seconds
	newVidraResource(t, ns, configMap("stays", "hello"), func(vr *v1alpha1.VidraResource) { vr.Finalizers = []string{v1alpha1.Finalizer} })
	startOperator(t)
	awaitReady(t, ns)
	await(t, func(c *assert.CollectT) { require.Len(c, getVidraResource(c, ns).Status.ManagedResources, 1) })
	require.Never(t, func() bool {
		return !cluster.Exists(t, page) || get(t, page).GetDeletionTimestamp() != nil
	}, 5*time.Second, time.Second)
}
