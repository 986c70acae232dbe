package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestHistoryOfAnUnansweredHeal reverts edits by requests whose answers are lost, and changes a field of another
// manager before they are sent again: the objects are as the manifest says by then. The edits are in the history
// and counted. It is not parallel because it stops the operator.
func TestHistoryOfAnUnansweredHeal(t *testing.T) {
	needsOwnControlPlane(t, faultsInjected)
	edits := map[string]struct {
		edit    func(t *testing.T, obj *unstructured.Unstructured)
		message string
	}{
		"changed": {func(t *testing.T, obj *unstructured.Unstructured) {
			t.Helper()
			require.NoError(t, mergePatch(obj, `{"data":{"greeting":"mine"}}`))
		}, `reverted data.greeting to "hello"; "person" had set it to "mine"`},
		"deleted": {func(t *testing.T, obj *unstructured.Unstructured) {
			t.Helper()
			require.NoError(t, admin.Delete(t.Context(), obj.DeepCopy()))
		}, "created it again after it had been deleted"},
	}
	stopOperator(t)
	proxy, through := proxied(t)
	startAnother(t, through)
	patches := faultproxy.Match{Verb: "patch", Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}}
	reads := patches
	reads.Verb = "get"
	for name, tt := range edits {
		t.Run(name, func(t *testing.T) {
			ns := newNamespace(t)
			newVidraResource(t, ns, configMap("page", "hello"))
			awaitReady(t, ns)
			page := declared(t, ns, configMap("page", "hello"))[0]
			before := get(t, page).GetUID()
			lost := proxy.Inject(patches, faultproxy.CutAfter(0))
			unread := proxy.Inject(reads, faultproxy.Status(apierrors.NewServiceUnavailable("away")))
			tt.edit(t, page)
			await(t, func(c *assert.CollectT) { require.Positive(c, lost.Hits()) })
			awaitInOrder(t, ns, page)
			awaitNotReady(t, ns, "ApplyFailed")
			require.NoError(t, edit(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "page"}}, types.MergePatchType,
				`{"metadata":{"annotations":{"note":"of another manager"}}}`, client.FieldOwner("tool")))
			lost.Remove()
			unread.Remove()
			awaitReady(t, ns)
			await(t, func(c *assert.CollectT) {
				status := getVidraResource(c, ns).Status
				of := historyOf(status, "page")
				require.Len(c, of, 1)
				require.Equal(c, tt.message, of[0].Message)
				require.EqualValues(c, 1, of[0].Count)
				require.EqualValues(c, 1, status.Drift.Heals)
			})
			require.Equal(t, name == "deleted", get(t, page).GetUID() != before)
		})
	}
}

// TestUnansweredHealOfAnObjectThatIsGone: an edit that moved a value is reverted by a request whose answer is lost, and the object is deleted while its
// watch is down. It is created again. It is not parallel because it stops the operator.
func TestUnansweredHealOfAnObjectThatIsGone(t *testing.T) {
	needsOwnControlPlane(t, faultsInjected)
	stopOperator(t)
	proxy, through := proxied(t)
	startAnother(t, through)
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello"))
	awaitReady(t, ns)
	page := declared(t, ns, configMap("page", "hello"))[0]
	before := get(t, page).GetUID()
	of := func(verb string) faultproxy.Match {
		return faultproxy.Match{Verb: verb, Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}}
	}
	away := faultproxy.Status(apierrors.NewServiceUnavailable("away"))
	lost := proxy.Inject(of("patch"), away)
	require.NoError(t, edit(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "page"}}, types.JSONPatchType,
		`[{"op":"move","from":"/data/greeting","path":"/data/salutation"}]`, client.FieldOwner("person")))
	await(t, func(c *assert.CollectT) { require.Positive(c, lost.Hits()) })
	expired := proxy.Inject(of("watch"), faultproxy.Status(apierrors.NewResourceExpired("the history has gone")))
	proxy.CutStreams(of("watch"))
	require.NoError(t, admin.Delete(t.Context(), page.DeepCopy()))
	await(t, func(c *assert.CollectT) { require.Positive(c, expired.Hits()) })
	expired.Remove() // a list shows that it is absent
	lost.Remove()
	awaitReady(t, ns)
	awaitInOrder(t, ns, page)
	require.NotEqual(t, before, get(t, page).GetUID())
}

// TestHistoryOfUnansweredHeals reverts one edit after the other by requests whose answers are lost. Each is in the
// history, although the next edit is made before an answer comes. It is not parallel because it stops the operator.
func TestHistoryOfUnansweredHeals(t *testing.T) {
	needsOwnControlPlane(t, faultsInjected)
	stopOperator(t)
	proxy, through := proxied(t)
	startAnother(t, through)
	ns := newNamespace(t)
	manifest := manifests(configMap("changed", "hello"), configMap("deleted", "hello"))
	newVidraResource(t, ns, manifest)
	awaitReady(t, ns)
	objects := declared(t, ns, manifest)
	lost := proxy.Inject(faultproxy.Match{Verb: "patch", Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}}, faultproxy.CutAfter(0))
	for n := int64(1); n <= 2; n++ {
		require.NoError(t, mergePatch(objects[0], `{"data":{"greeting":"mine"}}`))
		require.NoError(t, admin.Delete(t.Context(), objects[1].DeepCopy()))
		await(t, func(c *assert.CollectT) {
			status := getVidraResource(c, ns).Status
			for _, o := range objects {
				of := historyOf(status, o.GetName())
				require.Len(c, of, 1)
				require.Equal(c, n, of[0].Count)
			}
			require.Equal(c, 2*n, status.Drift.Heals)
		})
		awaitInOrder(t, ns, objects...)
	}
	require.GreaterOrEqual(t, lost.Hits(), 4)
	awaitReady(t, ns)
}

// TestHistoryOfAnEarlierLeader has the leader stop with an edit that no status has. The next leader begins with a
// status from before, as its watch is late, and reverts another edit. The status has both in the end, as it had
// the first one. It is not parallel because it stops the operator.
func TestHistoryOfAnEarlierLeader(t *testing.T) {
	needsOwnControlPlane(t, faultsInjected)
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello"))
	awaitReady(t, ns)
	page := declared(t, ns, configMap("page", "hello"))[0]
	stopOperator(t)
	leader := startAnother(t, electing()...)
	awaitLeads(t, leader)
	proxy, through := proxied(t)
	next := startAnother(t, electing(through)...)
	vidraResources := faultproxy.Match{Verb: "watch", Resource: v1alpha1.GroupVersion.WithResource("vidraresources")}
	await(t, func(c *assert.CollectT) { require.Positive(c, proxy.Streams(vidraResources)) })

	require.Positive(t, proxy.MuteStreams(vidraResources))
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"first"}}`))
	awaitInOrder(t, ns, page)
	require.NoError(t, leader.Stop(stopTimeout))
	require.Len(t, getVidraResource(t, ns).Status.History, 1)
	awaitLeads(t, next)
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"second"}}`))
	awaitInOrder(t, ns, page)
	require.Positive(t, proxy.CutStreams(vidraResources))
	await(t, func(c *assert.CollectT) {
		status := getVidraResource(c, ns).Status
		require.Len(c, status.History, 2)
		require.Contains(c, status.History[0].Message, "second")
		require.Contains(c, status.History[1].Message, "first")
		require.EqualValues(c, 2, status.Drift.Heals)
	})
}
