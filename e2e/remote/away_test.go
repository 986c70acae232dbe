package remote

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
)

// TestRemoteGoesAwayAndComesBack changes objects where no watch sees it.
func TestRemoteGoesAwayAndComesBack(t *testing.T) {
	t.Parallel()
	const soon = 12 * time.Second
	d, proxy := newDestination(t)
	owners := []string{d.name + "-a", d.name + "-b", d.name + "-c"}
	for _, owner := range owners {
		newVidraResource(t, d.url(), d.name, manifests(greeting(owner+"-1", "hello"), greeting(owner+"-2", "hello")), named(owner))
	}
	for _, owner := range owners {
		awaitReady(t, owner)
	}
	proxy.Down()
	before := time.Now()
	for _, owner := range owners {
		awaitUnreachable(t, owner, d.url(), "refused", "check that it runs")
	}
	took := time.Since(before)
	t.Logf("it is said after %s", took.Round(time.Millisecond))
	require.Less(t, took, soon)
	for _, owner := range owners {
		v := getVidraResource(t, owner)
		require.Len(t, v.Status.ManagedResources, 2, "nothing is forgotten")
		awaitEvent(t, v, corev1.EventTypeWarning, v1alpha1.ReasonDestinationUnreachable, "", "refused")
	}
	there.edit(t, configMap(d.name, owners[0]+"-1"), `{"data":{"greeting":"changed"}}`)
	require.NoError(t, there.Admin.Delete(t.Context(), configMap(d.name, owners[1]+"-2")))
	there.edit(t, configMap(d.name, owners[2]+"-1"), `{"metadata":{"labels":null,"annotations":null}}`)
	setManifest(t, owners[2], greeting(owners[2]+"-1", "hi"))

	mark := there.AuditMark(t)
	before = time.Now()
	require.NoError(t, proxy.Up())
	there.awaitSays(t, d.name, owners[0]+"-1", "hello")
	there.awaitSays(t, d.name, owners[1]+"-2", "hello")
	there.awaitSays(t, d.name, owners[2]+"-1", "hi")
	t.Logf("it is reverted after %s", time.Since(before).Round(time.Millisecond))
	there.AwaitGone(t, configMap(d.name, owners[2]+"-2"))
	for _, owner := range owners {
		v := awaitReady(t, owner)
		awaitEvent(t, v, corev1.EventTypeNormal, "DestinationRestored", "", "VidraResource "+owner, "answers again", d.url())
		told := eventsAbout(t, v, v1alpha1.ReasonDestinationUnreachable)
		require.Len(t, told, 1)
		require.Nil(t, told[0].Series, "it is told once")
		require.Empty(t, eventsAbout(t, v, "Recovered"), "so is its end")
	}
	// What lost its label may look deleted first, and is refused then.
	accepted := there.RequestsBy(t, mark, d.user).Writes().Only(func(e suite.Request) bool { return e.Code < http.StatusBadRequest })
	require.Len(t, accepted, 4, "%s", accepted)
}

// TestF30DestinationIsAway deletes VidraResources whose destination cannot be reached.
func TestF30DestinationIsAway(t *testing.T) {
	t.Parallel()
	d, proxy := newDestination(t)
	waits, leaves := d.name+"-waits", d.name+"-leaves"
	for _, owner := range []string{waits, leaves} {
		newVidraResource(t, d.url(), d.name, manifests(greeting(owner+"-1", "hello"), greeting(owner+"-2", "hello")), named(owner))
		awaitReady(t, owner)
	}
	proxy.Down()
	for _, owner := range []string{waits, leaves} {
		remove(t, getVidraResource(t, owner))
		v := awaitUnreachable(t, owner, "refused", "its objects (2)", "spec.deletionPolicy", "Orphan")
		require.Contains(t, v.Finalizers, v1alpha1.Finalizer)
		require.Len(t, v.Status.ManagedResources, 2)
	}
	left, waiting := getVidraResource(t, leaves), getVidraResource(t, waits)
	before := time.Now()
	here.edit(t, left, `{"spec":{"deletionPolicy":"Orphan"}}`)
	here.AwaitGone(t, left)
	require.Less(t, time.Since(before), 5*time.Second, "at once")
	awaitEvent(t, left, corev1.EventTypeNormal, "Pruned", "", "Left in place", leaves+"-1")
	require.Equal(t, "hello", there.says(t, d.name, leaves+"-1"))

	require.True(t, here.Exists(t, waiting))
	require.NoError(t, proxy.Up())
	here.AwaitGone(t, waiting)
	require.False(t, there.Exists(t, configMap(d.name, waits+"-1")))
	require.False(t, there.Exists(t, configMap(d.name, waits+"-2")))
	require.Equal(t, "hello", there.says(t, d.name, leaves+"-1"), "unmanaged objects stay")
}

// TestUnroutedDestination deletes a VidraResource, and changes another one, while a proxy in front of the destination answers each request with
// 404, as without a route to the API server: no kind is gone for that, and no object is forgotten.
func TestUnroutedDestination(t *testing.T) {
	t.Parallel()
	const longer = 2 * plan.KindGoneTimeout
	d, proxy := newDestination(t)
	deleted, changed := d.name+"-deleted", d.name+"-changed"
	for _, owner := range []string{deleted, changed} {
		newVidraResource(t, d.url(), d.name, manifests(greeting(owner+"-1", "hello"), greeting(owner+"-2", "hello")), named(owner))
		awaitReady(t, owner)
	}
	rule := proxy.Inject(faultproxy.Match{}, faultproxy.Text(http.StatusNotFound, "404 page not found"))
	proxy.Down()
	require.NoError(t, proxy.Up()) // the connections of before are cut
	remove(t, getVidraResource(t, deleted))
	setManifest(t, changed, greeting(changed+"-1", "hi"))
	require.Never(t, func() bool {
		return !here.Exists(t, &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: deleted}}) || len(getVidraResource(t, changed).Status.ManagedResources) < 2
	}, longer, 10*poll, "nothing is forgotten")
	awaitUnreachable(t, deleted, "it answers 404", "its objects (2)")
	awaitUnreachable(t, changed, "it answers 404")
	rule.Remove()
	here.AwaitGone(t, &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: deleted}})
	require.False(t, there.Exists(t, configMap(d.name, deleted+"-1")))
	require.False(t, there.Exists(t, configMap(d.name, deleted+"-2")))
	there.awaitSays(t, d.name, changed+"-1", "hi")
	there.AwaitGone(t, configMap(d.name, changed+"-2"))
}

// TestF30DestinationIsGoneForGood deletes VidraResources whose kubeconfig is gone: one
// that never applied anything, and one that did.
func TestF30DestinationIsGoneForGood(t *testing.T) {
	t.Parallel()
	d, _ := newAccountDestination(t)
	never := newVidraResource(t, d.url(), d.name, greeting("page", "hello"), named(d.name+"-never"))
	awaitUnreachable(t, never.Name, "no Secret")
	before := time.Now()
	remove(t, never)
	here.AwaitGone(t, never)
	require.Less(t, time.Since(before), 5*time.Second, "there is nothing to remove")

	setKubeconfig(t, d.name, kubeconfig(t, d.config))
	applied := newVidraResource(t, d.url(), d.name, greeting("page", "hello"), named(d.name+"-applied"))
	awaitReady(t, applied.Name)
	deleteKubeconfig(t, d.name)
	awaitUnreachable(t, applied.Name, "no Secret")
	remove(t, applied)
	awaitUnreachable(t, applied.Name, "no Secret", "its objects (1)", "Orphan")
	setKubeconfig(t, d.name, kubeconfig(t, d.config))
	here.AwaitGone(t, applied)
	require.False(t, there.Exists(t, configMap(d.name, "page")))
}

// TestRemoteFlaps has single requests fail, which is no reason to say anything.
func TestRemoteFlaps(t *testing.T) {
	t.Parallel()
	const watched = 4 * time.Second // longer than until an outage is told
	d, proxy := newDestination(t)
	newVidraResource(t, d.url(), d.name, greeting("page", "hello"))
	v := awaitReady(t, d.name)
	since := meta.FindStatusCondition(v.Status.Conditions, v1alpha1.ConditionReady).LastTransitionTime
	for i := range 3 {
		proxy.Down()
		require.NoError(t, proxy.Up())
		there.edit(t, configMap(d.name, "page"), `{"data":{"greeting":"changed %d"}}`, i)
		there.awaitSays(t, d.name, "page", "hello")
	}
	require.Never(t, func() bool {
		return !meta.IsStatusConditionTrue(getVidraResource(t, d.name).Status.Conditions, v1alpha1.ConditionReady)
	}, watched, 10*poll)
	v = awaitReady(t, d.name)
	require.Equal(t, since, meta.FindStatusCondition(v.Status.Conditions, v1alpha1.ConditionReady).LastTransitionTime, "it stayed Ready")
	for _, reason := range []string{v1alpha1.ReasonDestinationUnreachable, v1alpha1.ReasonApplyFailed, v1alpha1.ReasonKindUnavailable} {
		require.Empty(t, eventsAbout(t, v, reason), reason)
	}
}
