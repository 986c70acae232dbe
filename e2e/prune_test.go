package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

func TestPrune(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, manifests(web, configMap("old", "hello")))
	before := awaitReady(t, ns)
	old := declared(t, ns, configMap("old", "hello"))[0]
	requireInOrder(t, ns, old)

	setManifest(t, ns, web)
	v := awaitReady(t, ns)
	awaitGone(t, old)
	require.Len(t, v.Status.ManagedResources, 4)
	require.EqualValues(t, 4, v.Status.Objects)
	for _, obj := range declared(t, ns, web) {
		live := requireInOrder(t, ns, obj)
		require.Equal(t, string(live.GetUID()), entry(t, before, obj.GetKind(), obj.GetName()).UID, "the others stay")
	}
	awaitEvent(t, v, corev1.EventTypeNormal, "Pruned", "Prune", "ConfigMap "+ns+"/old")

	setManifest(t, ns, manifests(web, configMap("other", "hello")))
	awaitReady(t, ns)
	setManifest(t, ns, manifests(web, configMap("old", "hello")))
	v = awaitReady(t, ns)
	awaitInOrder(t, ns, old)
	awaitGone(t, declared(t, ns, configMap("other", "hello"))[0])
	awaitEvent(t, v, corev1.EventTypeNormal, "Pruned", "Prune", "ConfigMap "+ns+"/other")
}

// TestPruneLastOfItsKind removes the only object of a kind, whose watch then has
// no other owner here.
func TestPruneLastOfItsKind(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, web)
	awaitReady(t, ns)
	service := declaredObject(t, ns, web, "Service", "web")
	setManifest(t, ns, configMap("page", "hi"))
	v := awaitReady(t, ns)
	awaitGone(t, service)
	require.Len(t, v.Status.ManagedResources, 1)
	requireInOrder(t, ns, declared(t, ns, configMap("page", "hi"))[0])
	require.Equal(t, "All kinds are watched (1)", condition(t, v, v1alpha1.ConditionWatching).Message)
}

// TestPruneSparesWhatIsNotOurs has objects that another owner adopted, or replaced,
// while no operator ran. They left the manifest, and must stay.
func TestPruneSparesWhatIsNotOurs(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		take   func(t *testing.T, page *corev1.ConfigMap)
	}{
		"taken over": {
			reason: "a user who removes every mark has released the object",
			take: func(t *testing.T, page *corev1.ConfigMap) {
				t.Helper()
				require.NoError(t, mergePatch(page, `{"metadata":{"labels":null,"annotations":null,"managedFields":[{}]}}`))
			},
		},
		"replaced": {
			reason: "an object with the same name is another object",
			take: func(t *testing.T, page *corev1.ConfigMap) {
				t.Helper()
				require.NoError(t, admin.Delete(t.Context(), page.DeepCopy()))
				require.NoError(t, admin.Create(t.Context(), page.DeepCopy()))
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, manifests(configMap("page", "hello"), configMap("stays", "hello")), withoutEvents)
			awaitReady(t, ns)
			page := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "page", Namespace: ns}, Data: map[string]string{"greeting": "mine"}}
			tt.take(t, page)
			version := get(t, page).GetResourceVersion()

			setManifest(t, ns, configMap("stays", "hello"))
			v := awaitReady(t, ns)
			require.Len(t, v.Status.ManagedResources, 1, "it is not ours to keep in the inventory")
			require.Equal(t, version, get(t, page).GetResourceVersion(), tt.reason)

			require.NoError(t, deleteVidraResource(t.Context(), ns))
			awaitGone(t, v)
			require.Equal(t, version, get(t, page).GetResourceVersion(), tt.reason)
		})
	}
}

// TestPruneOfWhatIsGone removes from the manifest what a user has deleted.
func TestPruneOfWhatIsGone(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, manifests(configMap("page", "hello"), configMap("stays", "hello")), withoutEvents)
	awaitReady(t, ns)
	require.NoError(t, admin.Delete(t.Context(), declared(t, ns, configMap("page", "hello"))[0]))
	setManifest(t, ns, configMap("stays", "hello"))
	v := awaitReady(t, ns)
	require.Len(t, v.Status.ManagedResources, 1)
}

// TestPruneWaitsForTheReplacement keeps what left the manifest while what may take its
// place is refused.
func TestPruneWaitsForTheReplacement(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page-v1", "hello"))
	awaitReady(t, ns)
	uid := get(t, declared(t, ns, configMap("page-v1", "hello"))[0]).GetUID()
	mark := auditMark(t)
	setManifest(t, ns, configMap("page-v2", "hello")+"  wrong: {}\n")
	v := awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid, "ConfigMap "+ns+"/page-v2")
	require.Equal(t, string(uid), entry(t, v, "ConfigMap", "page-v1").UID, "it stays in the inventory")
	attempts := func() requests { return operatorSince(t, mark).On("configmaps", ns, "page-v2").Only(verbIs("patch")) }
	await(t, func(c *assert.CollectT) { require.GreaterOrEqual(c, len(attempts()), 3) })
	require.Equal(t, uid, get(t, declared(t, ns, configMap("page-v1", "hello"))[0]).GetUID())

	setManifest(t, ns, configMap("page-v2", "hello"))
	v = awaitReady(t, ns)
	require.Len(t, v.Status.ManagedResources, 1)
	awaitGone(t, declared(t, ns, configMap("page-v1", "hello"))[0])
}

// TestPruneWaitsForForeignFinalizers keeps in the inventory what is not gone.
func TestPruneWaitsForForeignFinalizers(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, manifests(configMap("page", "hello"), configMap("stays", "hello")))
	awaitReady(t, ns)
	page := declared(t, ns, configMap("page", "hello"))[0]
	require.NoError(t, mergePatch(page, `{"metadata":{"finalizers":["example.com/wait"]}}`))
	t.Cleanup(func() { _ = mergePatch(page, `{"metadata":{"finalizers":null}}`) }) // it is gone if all went well

	setManifest(t, ns, configMap("stays", "hello"))
	v := awaitNotReady(t, ns, v1alpha1.ReasonProgressing, "ConfigMap "+ns+"/page", "is being deleted, and waits for its finalizers (example.com/wait)")
	require.Equal(t, v1alpha1.ObjectDeleting, entry(t, v, "ConfigMap", "page").State)

	require.NoError(t, mergePatch(page, `{"metadata":{"finalizers":null}}`))
	v = awaitReady(t, ns)
	require.Len(t, v.Status.ManagedResources, 1)
	awaitGone(t, page)
}
