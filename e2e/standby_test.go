package e2e

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
)

// The tests of this file run several operators, so none of them is parallel: see the
// variable operator.

// TestStandbyTakesOver stops the leader of two operators. The other one acquires the Lease as soon
// as it is released, and need not list the objects, which it watches already. The elector alone
// would ask for the Lease every 2 to 4.4 seconds.
func TestStandbyTakesOver(t *testing.T) {
	const atOnce = time.Second
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello")) // the shared operator, which runs again then, deletes it
	awaitReady(t, ns)
	page := declared(t, ns, configMap("page", "hello"))[0]
	stopOperator(t)
	leader := startAnother(t, electing()...)
	awaitLeads(t, leader)

	next := startAnother(t, electing()...)
	await(t, func(c *assert.CollectT) {
		const watched = `vidra_watch_state{destination="",group="",reason="",resource="configmaps",state="Synced",version="v1",watched_namespace=""}`
		require.Equal(c, 1, metric(c, next, watched))
	}, "it watches what the leader watches")
	require.False(t, leads(t, next))
	since := renewed(t)
	await(t, func(c *assert.CollectT) { require.Greater(c, renewed(c).Sub(since), 5*time.Second) }, "a request of the elector ends by then, the watch does not")

	mark := auditMark(t)
	require.NoError(t, leader.Stop(stopTimeout))
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"edited"}}`))
	awaitLeads(t, next)
	awaitSays(t, page, "hello")

	sent := cluster.RequestsBy(t, mark, operatorUser)
	require.Empty(t, sent.Only(func(r request) bool { return r.Resource == "configmaps" && r.Namespace == "" }), "the watch continues")
	writes := sent.Only(func(r request) bool { return r.Resource == "leases" && r.Verb == "update" }).Accepted()
	require.GreaterOrEqual(t, len(writes), 2, "%s", writes)
	t.Logf("the Lease was acquired %s after its release", writes[1].Time.Sub(writes[0].Time))
	require.Less(t, writes[1].Time.Sub(writes[0].Time), atOnce, "%s", writes)
}

// TestStandbyAsksOnceForAKind has the API server not answer a standby which kinds a version has, of which a VidraResource has many objects. The
// standby does not ask for each of them, and watches the other kinds. It watches this one, too, once the API server answers, although no VidraResource
// changes then.
func TestStandbyAsksOnceForAKind(t *testing.T) {
	needsOwnControlPlane(t, faultsInjected)
	const many = 40
	ns := newNamespace(t)
	var documents []string
	for i := range many {
		documents = append(documents, configMap(fmt.Sprint("page-", i), "hello"))
	}
	documents = append(documents, "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: zone}\nspec: {podSelector: {}}\n")
	newVidraResource(t, ns, manifests(documents...)) // the shared operator, which runs again then, deletes it
	v := awaitReady(t, ns)
	require.Equal(t, "NetworkPolicy", v.Status.ManagedResources[many].Kind, "it comes last")
	stopOperator(t)
	leader := startAnother(t, electing()...)
	awaitLeads(t, leader)
	proxy, through := proxied(t)
	asked := proxy.Inject(faultproxy.Match{Verb: faultproxy.Discovery, PathPrefix: "/api/v1"},
		faultproxy.Status(apierrors.NewServiceUnavailable("overloaded")))
	next := startAnother(t, electing(through)...)
	await(t, func(c *assert.CollectT) {
		const watched = `vidra_watch_state{destination="",group="networking.k8s.io",reason="",resource="networkpolicies",state="Synced",version="v1",watched_namespace=""}`
		require.Equal(c, 1, metric(c, next, watched))
	})
	require.NotZero(t, asked.Hits())
	require.Less(t, asked.Hits(), many/4)
	asked.Remove()
	await(t, func(c *assert.CollectT) {
		const watched = `vidra_watch_state{destination="",group="",reason="",resource="configmaps",state="Synced",version="v1",watched_namespace=""}`
		require.Equal(c, 1, metric(c, next, watched))
	})
}

// TestPausedLeaderDoesNotWrite pauses the process of the leader until another operator leads, and
// resumes it while an edit stands that it would revert. It ends without a write.
func TestPausedLeaderDoesNotWrite(t *testing.T) {
	needsOwnControlPlane(t, faultsInjected)
	ns := newNamespace(t)
	lease := "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata:\n  name: held\nspec:\n  holderIdentity: hello\n"
	event := "apiVersion: events.k8s.io/v1\nkind: Event\nmetadata:\n  name: told\n  labels:\n    greeting: hello\neventTime: \"2026-01-01T00:00:00.000000Z\"\n" +
		"reportingController: example.com/c\nreportingInstance: c\naction: Test\nreason: Test\ntype: Normal\nregarding: {kind: Namespace, name: " + ns + ", namespace: " + ns + "}\n"
	newVidraResource(t, ns, manifests(configMap("page", "hello"), lease, event)) // the shared operator, which runs again then, deletes it
	shrinks, ends := ns+"-shrinks", ns+"-ends"
	newVidraResource(t, ns, manifests(configMap("stays", "hello"), configMap("leaves", "hello")), named(shrinks))
	ending := newVidraResource(t, ns, configMap("ends", "hello"), named(ends))
	for _, name := range []string{ns, shrinks, ends} {
		awaitReady(t, name)
	}
	page := declared(t, ns, configMap("page", "hello"))[0]
	stopOperator(t)
	proxy, through := proxied(t)
	leader := startAnother(t, electing(through)...)
	awaitLeads(t, leader)
	next := startAnother(t, electing()...)

	first := holder(t)
	require.NoError(t, syscall.Kill(leader.PID, syscall.SIGSTOP))
	t.Cleanup(func() { _ = syscall.Kill(leader.PID, syscall.SIGCONT) }) // it cannot end before
	await(t, func(c *assert.CollectT) { require.NotEqual(c, first, holder(c)) }, "the Lease expires")
	awaitLeads(t, next)
	require.NoError(t, next.Kill()) // so that the edit stands
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"edited"}}`))
	require.NoError(t, mergePatch(declaredObject(t, ns, lease, "Lease", "held"), `{"spec":{"holderIdentity":"edited"}}`))
	require.NoError(t, mergePatch(declaredObject(t, ns, event, "Event", "told"), `{"metadata":{"labels":{"greeting":"edited"}}}`))

	setManifest(t, shrinks, configMap("stays", "hello"))
	require.NoError(t, admin.Delete(t.Context(), ending))
	require.NoError(t, admin.Delete(t.Context(), declared(t, ns, configMap("stays", "hello"))[0]))
	newVidraResource(t, ns, configMap("new", "hello"), named(ns+"-new"))

	mark := auditMark(t)
	written := proxy.Inject(faultproxy.Match{Verb: "patch", Namespace: ns}, faultproxy.Fault{})
	require.NoError(t, syscall.Kill(leader.PID, syscall.SIGCONT))
	select {
	case <-leader.Done():
	case <-time.After(patience):
		require.Fail(t, "the leader still runs")
	}
	require.Error(t, leader.Err(), "so that it is started again")
	require.Zero(t, written.Hits(), "the paused leader has written")
	about := operatorSince(t, mark).Writes().Only(func(r request) bool { // no other operator runs
		return r.Resource != "leases" && r.Resource != "events" && r.Resource != "subjectaccessreviews" || r.Namespace == ns
	})
	require.Empty(t, about, "%s", about)
	require.NotEmpty(t, get(t, declared(t, ns, configMap("leaves", "hello"))[0]).GetUID())
	require.Equal(t, map[string]any{"greeting": "edited"}, get(t, page).Object["data"])
}
