package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/infrahub/standin"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestOtherControllers: a VidraResource of another controller is not touched; two InfrahubSyncs of the same artifacts have different names.
func TestOtherControllers(t *testing.T) {
	t.Parallel()
	l := newLab(t, standin.Options{})
	l.credentials(nil)
	l.Set(l.artifact("a", "hello"))
	l.sync()
	l.awaitGreeting("a", "hello")
	second := l.get(t)
	second.ObjectMeta = configMap("", l.ns+"-two").ObjectMeta
	second.Spec.Destination.Namespace = cluster.NewNamespace(t)
	require.NoError(t, cluster.Admin.Create(t.Context(), second))
	t.Cleanup(func() { _ = cluster.Admin.Delete(cleanup, second) })
	suite.Await(t, func(c *assert.CollectT) {
		require.NoError(c, cluster.Admin.Get(t.Context(), keyOf(second), second))
		require.Contains(c, second.Status.LastError, "belongs to InfrahubSync "+l.ns)
	})
	require.NoError(t, cluster.MergePatch(second, `{"spec":{"template":{"nameSuffix":"-two"}}}`))
	suite.Await(t, func(c *assert.CollectT) {
		require.True(c, cluster.Exists(c, configMap(second.Spec.Destination.Namespace, "a")))
	})
	l.requireResources(t, "a")
}

// TestTwoAtOnce: of two InfrahubSyncs that list the same artifacts and are created at once, each VidraResource has one as its controller from
// its creation on, and the other one changes nothing in it.
func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t, standin.Options{})
	l.credentials(nil)
	names := strings.Split("a b c d e f g h", " ")
	for _, name := range names {
		l.Set(l.artifact(name, "hello"))
	}
	// Both have their answer at the same time.
	arrived, both := make(chan struct{}, 1), make(chan struct{})
	l.Instead(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/api/query") {
			select {
			case arrived <- struct{}{}:
				<-both
			default:
				l.Instead(nil)
				close(both)
			}
		}
		return false
	})
	l.sync()
	second := l.get(t)
	second.ObjectMeta = configMap("", l.ns+"-two").ObjectMeta
	second.Spec.Destination.Namespace = cluster.NewNamespace(t)
	require.NoError(t, cluster.Admin.Create(t.Context(), second))
	t.Cleanup(func() { _ = cluster.Admin.Delete(cleanup, second) })
	suite.Await(t, func(c *assert.CollectT) {
		first := l.get(c)
		require.NoError(c, cluster.Admin.Get(t.Context(), keyOf(second), second))
		require.EqualValues(c, len(names), first.Status.Artifacts)
		require.EqualValues(c, len(names), second.Status.Artifacts)
		require.EqualValues(c, len(names), first.Status.Applied+second.Status.Applied)
	})
	first := l.get(t)
	for _, problem := range append(first.Status.Problems, second.Status.Problems...) {
		require.Equal(t, v1alpha1.ArtifactConflict, problem.Reason, problem.Message)
	}
	for _, name := range names {
		vr := cluster.GetVidraResource(t, l.id(name))
		require.EqualValues(t, 1, vr.Generation, "it was written once")
		of := map[string]string{first.Name: first.Spec.Destination.Namespace, second.Name: second.Spec.Destination.Namespace}
		require.Equal(t, of[metav1.GetControllerOf(vr).Name], vr.Spec.Destination.Namespace)
	}
}

// TestCreatedAgain: an InfrahubSync that is deleted and created again during a sync is synced, and has no status of the former one.
func TestCreatedAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t, standin.Options{})
	l.credentials(nil)
	l.Set(l.artifact("a", "hello"))
	arrived, answered := make(chan struct{}), make(chan struct{})
	l.Instead(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/api/query") {
			l.Instead(nil)
			close(arrived)
			<-answered
		}
		return false
	})
	is := l.sync()
	select {
	case <-arrived:
	case <-time.After(suite.Patience):
		require.Fail(t, "no query")
	}
	require.NoError(t, cluster.Admin.Delete(t.Context(), is))
	again := is.DeepCopy()
	again.ObjectMeta = metav1.ObjectMeta{Name: is.Name}
	require.NoError(t, cluster.Admin.Create(t.Context(), again))
	close(answered)
	l.await(v1alpha1.SyncReasonSynced, "1 artifact")
	require.GreaterOrEqual(t, len(l.Requests("/api/query")), 2, "the status is that of a query of its own")
	suite.Await(t, func(c *assert.CollectT) {
		vr := l.resources(c)[l.id("a")]
		require.NotNil(c, vr)
		require.True(c, metav1.IsControlledBy(vr, again))
	})
	l.awaitGreeting("a", "hello")
}

// TestOrphans: VidraResources that lost their InfrahubSync, with their objects, are adopted by a new one.
func TestOrphans(t *testing.T) {
	t.Parallel()
	l := newLab(t, standin.Options{})
	l.credentials(nil)
	l.Set(l.artifact("a", "hello"), l.artifact("b", "hello"))
	is := l.sync()
	before := l.awaitGreeting("a", "hello")
	l.await(v1alpha1.SyncReasonSynced)
	// The garbage collector learns of new kinds after up to 30 seconds. Until then, it would orphan nothing.
	probe := configMap(l.ns, "probe")
	probe.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Name: l.ns + "-probe"}}
	owner := cluster.NewVidraResource(t, l.ns, suite.Greeting("probed", "hello"), suite.Named(l.ns+"-probe"))
	probe.OwnerReferences[0].UID = owner.UID
	require.NoError(t, cluster.Admin.Create(t.Context(), probe))
	require.NoError(t, cluster.DeleteVidraResource(t.Context(), owner.Name))
	cluster.AwaitGone(t, probe)

	require.NoError(t, cluster.Admin.Delete(t.Context(), is, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	cluster.AwaitGone(t, is)
	l.sync()
	l.await(v1alpha1.SyncReasonSynced)
	l.requireResources(t, "a", "b")
	require.Equal(t, before.GetUID(), cluster.Get(t, before).GetUID())
}

// TestOtherInstallation: a VidraResource of another installation of Vidra is not adopted, also if it has no controller.
func TestOtherInstallation(t *testing.T) {
	t.Parallel()
	l := newLab(t, standin.Options{})
	l.credentials(nil)
	l.Set(l.artifact("a", "hello"), l.artifact("b", "hello"))
	other := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: l.id("a"), Labels: map[string]string{v1alpha1.InstallationLabel: "east"}}}
	other.Spec.Manifest, other.Spec.Destination.Namespace = suite.Greeting("other", "hello"), l.ns
	require.NoError(t, cluster.Admin.Create(t.Context(), other))
	t.Cleanup(func() { require.NoError(t, cluster.Admin.Delete(cleanup, other)) })
	l.sync()
	is := l.await(v1alpha1.SyncReasonArtifactsFailed, "is of another installation of Vidra")
	require.Equal(t, v1alpha1.ArtifactConflict, is.Status.Problems[0].Reason)
	l.awaitGreeting("b", "hello")
	require.Equal(t, other.ResourceVersion, cluster.GetVidraResource(t, other.Name).ResourceVersion)
	require.NoError(t, cluster.MergePatch(other, `{"metadata":{"labels":null}}`))
	l.request()
	l.awaitGreeting("a", "hello")
	l.requireResources(t, "a", "b")
}

// TestOtherArtifacts: with another name of the artifacts, all VidraResources of the former ones are gone from the answer, which waits.
func TestOtherArtifacts(t *testing.T) {
	t.Parallel()
	l := newLab(t, standin.Options{})
	l.credentials(nil)
	other := l.artifact("c", "hello")
	other.Name = "Other"
	l.Set(l.artifact("a", "hello"), l.artifact("b", "hello"), other)
	l.sync()
	l.await(v1alpha1.SyncReasonSynced)
	l.requireResources(t, "a", "b")
	require.NoError(t, cluster.MergePatch(l.get(t), `{"spec":{"source":{"artefactName":"Other"}}}`))
	is := l.await(v1alpha1.SyncReasonConfirmationRequired, "more than half of the 2")
	l.requireResources(t, "a", "b", "c")
	require.NoError(t, cluster.MergePatch(is, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.ConfirmRemovalAnnotation, is.Status.PendingRemovals.Confirmation))
	l.awaitResources("c")
	l.await(v1alpha1.SyncReasonSynced)
	l.awaitGreeting("c", "hello")
}

// TestOtherDestination: with another namespace, the objects move, and no VidraResource is created again.
func TestOtherDestination(t *testing.T) {
	t.Parallel()
	l := newLab(t, standin.Options{})
	l.credentials(nil)
	l.Set(l.artifact("a", "hello"))
	is := l.sync()
	l.awaitGreeting("a", "hello")
	before, to := l.resources(t)[l.id("a")].UID, cluster.NewNamespace(t)
	require.NoError(t, cluster.MergePatch(is, `{"spec":{"destination":{"namespace":%q}}}`, to))
	suite.Await(t, func(c *assert.CollectT) { require.True(c, cluster.Exists(c, configMap(to, "a"))) })
	cluster.AwaitGone(t, configMap(l.ns, "a"))
	require.Equal(t, before, l.resources(t)[l.id("a")].UID)
	require.ErrorContains(t, cluster.MergePatch(is, `{"spec":{"destination":{"server":"https://other.example.com"}}}`), "server cannot change")
}
