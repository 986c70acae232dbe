package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// The tests of this file run several operators, so none of them is parallel: see the
// variable operator.

// leaseName is the Lease that operators that elect a leader contend for.
var leaseName = client.ObjectKey{Namespace: testenv.OperatorNamespace, Name: "vidra-operator.infrahub.operators.com"}

// startAnother starts an operator besides the one that all tests share. It is stopped
// when the test ends.
func startAnother(t *testing.T, args ...string) *testenv.Operator {
	t.Helper()
	another, err := env.StartOperator(context.Background(), testenv.OperatorOptions{Binary: operatorBinary, Args: args})
	require.NoError(t, err)
	t.Cleanup(func() {
		select {
		case <-another.Done():
			printed, err := os.ReadFile(another.Log)
			require.NoError(t, err)
			require.NotContains(t, string(printed), "DATA RACE")
		default:
			require.NoError(t, another.Stop(stopTimeout))
		}
	})
	return another
}

// electing are the arguments of an operator that works only while it leads.
func electing(more ...string) []string {
	return append([]string{"--leader-elect=true", "--leader-election-namespace=" + leaseName.Namespace}, more...)
}

// leads reports whether an operator leads, by its metric: the log of a Pod may arrive late.
func leads(t require.TestingT, o *testenv.Operator) bool {
	return metric(t, o, "leader_election_master_status") == 1
}

// awaitLeads waits until an operator leads. An operator of another test may have ended
// without a release of the Lease.
func awaitLeads(t *testing.T, o *testenv.Operator) {
	t.Helper()
	await(t, func(c *assert.CollectT) { require.True(c, leads(c, o), "the operator leads") })
}

// leaseOf reads the Lease.
func leaseOf(t require.TestingT) coordinationv1.LeaseSpec {
	lease := &coordinationv1.Lease{}
	require.NoError(t, admin.Get(context.Background(), leaseName, lease))
	return lease.Spec
}

// holder is who holds the Lease.
func holder(t require.TestingT) string {
	spec := leaseOf(t)
	require.NotNil(t, spec.HolderIdentity)
	return *spec.HolderIdentity
}

// renewed is when the Lease was renewed.
func renewed(t require.TestingT) time.Time {
	spec := leaseOf(t)
	require.NotNil(t, spec.RenewTime)
	return spec.RenewTime.Time
}

// proxied starts a proxy before the API server, and returns it with the argument that
// has an operator use it.
func proxied(t *testing.T) (*faultproxy.Proxy, string) {
	t.Helper()
	own, err := env.ServiceAccountKubeconfig(t.Context(), testenv.OperatorNamespace, testenv.OperatorServiceAccount)
	require.NoError(t, err)
	config, err := clientcmd.BuildConfigFromFlags("", own)
	require.NoError(t, err)
	proxy, err := faultproxy.Start(config)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	path, err := env.WriteKubeconfig(unique(t), proxy.Config())
	require.NoError(t, err)
	return proxy, "--kubeconfig=" + path
}

// TestLogOfAnOrdinaryRun: the start and the end of an operator that leads, and that finds all in order, log no error.
func TestLogOfAnOrdinaryRun(t *testing.T) {
	needsOwnControlPlane(t, "the log of a Pod ends with it")
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello"))
	awaitReady(t, ns)
	stopOperator(t)
	leader := startAnother(t, electing()...)
	awaitLeads(t, leader)
	page := declared(t, ns, configMap("page", "hello"))[0]
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
	awaitInOrder(t, ns, page)
	require.NoError(t, leader.Stop(stopTimeout))
	printed := suite.LogOf(t, leader)
	require.Contains(t, printed, "shutting down server")
	require.NotContains(t, printed, `"level":"error"`)
	require.NotContains(t, printed, "healthz check failed")
}

// TestF32LeadershipLostWhileApplying cuts the leader off from its Lease, and some of its
// applies from their answer, in the middle of a large apply. It ends, the other operator
// takes over, and finishes: nothing is lost and nothing is made twice.
func TestF32LeadershipLostWhileApplying(t *testing.T) {
	needsOwnControlPlane(t, faultsInjected)
	const many, early = 120, 40
	ns := newNamespace(t)
	stopOperator(t)
	proxy, through := proxied(t)
	leader := startAnother(t, electing(through)...)
	awaitLeads(t, leader)
	first := holder(t)
	next := startAnother(t, electing()...)

	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	leases := schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	patches := faultproxy.Match{Verb: "patch", Resource: configMaps, Namespace: ns}
	proxy.Inject(patches, faultproxy.Stall())
	proxy.Inject(patches, faultproxy.CutAfter(0).Times(early+10)) // done, and its client does not learn of it
	proxy.Inject(patches, faultproxy.Fault{}.Times(early))
	var documents []string
	for i := range many {
		documents = append(documents, configMap(fmt.Sprintf("page-%03d", i), "hello"))
	}
	mark := auditMark(t)
	newVidraResource(t, ns, manifests(documents...))
	await(t, func(c *assert.CollectT) { require.GreaterOrEqual(c, countPages(c, ns), early) })
	proxy.Inject(faultproxy.Match{Resource: leases}, faultproxy.Status(apierrors.NewServiceUnavailable("cut off")))
	require.Less(t, countPages(t, ns), many)
	uids := uidsOfPages(t, ns)

	await(t, func(c *assert.CollectT) {
		select {
		case <-leader.Done():
		default:
			require.Fail(c, "the leader still runs")
		}
	}, "who cannot renew the Lease ends")
	require.Error(t, leader.Err(), "so that it is started again")
	await(t, func(c *assert.CollectT) { require.NotEqual(c, first, holder(c)) })
	v := awaitReady(t, ns)
	require.NoError(t, next.Err())
	require.Len(t, v.Status.ManagedResources, many)
	require.Equal(t, many, countPages(t, ns))
	after := uidsOfPages(t, ns)
	for name, uid := range uids {
		require.Equal(t, uid, after[name], "%s was made twice", name)
	}
	writes := operatorSince(t, mark).ObjectsIn(ns).Writes()
	require.LessOrEqual(t, len(writes), 3*many)
	require.Empty(t, writes.Only(verbIs("delete")))

	page := declared(t, ns, documents[0])[0]
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
	awaitInOrder(t, ns, page)
	require.NoError(t, deleteVidraResource(t.Context(), ns)) // who leads now removes it
	awaitGone(t, v)
	require.Zero(t, countPages(t, ns))
}

// uidsOfPages are the UIDs of the managed ConfigMaps of a namespace.
func uidsOfPages(t *testing.T, ns string) map[string]string {
	t.Helper()
	pages := &corev1.ConfigMapList{}
	require.NoError(t, admin.List(t.Context(), pages, client.InNamespace(ns), client.MatchingLabels{"managed-by": "vidra"}))
	uids := map[string]string{}
	for _, page := range pages.Items {
		uids[page.Name] = string(page.UID)
	}
	return uids
}

// TestF32TwoOperatorsAtOnce runs two operators that both work, by mistake. They do twice
// the work, and no harm: they do not fight over objects or status, and what one of them
// has pruned the other does not delete again.
func TestF32TwoOperatorsAtOnce(t *testing.T) {
	needsOwnControlPlane(t, faultsInjected)
	const edits, most = 10, 4 // most is how many writes an edit may cause
	ns := newNamespace(t)
	stopOperator(t)
	var proxies []*faultproxy.Proxy
	for range 2 {
		proxy, through := proxied(t)
		startAnother(t, through)
		proxies = append(proxies, proxy)
	}
	manifest := manifests(web, configMap("old", "hello"))
	mark := auditMark(t)
	newVidraResource(t, ns, manifest, withDrift(v1alpha1.DriftPolicy{HealsPerMinute: 1000})) // the edits are no contention
	awaitReady(t, ns)
	awaitSilence(t)
	// Each of them applies an object once, and again each time that the other one was faster with the status. A create
	// where the object is there is refused.
	writes := operatorSince(t, mark).ObjectsIn(ns).Writes().Accepted()
	require.LessOrEqual(t, len(writes), 2*3*len(declared(t, ns, manifest)), "%s", writes)
	for _, obj := range declared(t, ns, manifest) {
		requireInOrder(t, ns, obj)
	}

	page, deployment := declaredObject(t, ns, manifest, "ConfigMap", "page"), declaredObject(t, ns, manifest, "Deployment", "web")
	mark = auditMark(t)
	for i := range edits {
		require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine %d"}}`, i))
		require.NoError(t, mergePatch(deployment, `{"spec":{"replicas":%d}}`, i+2))
		awaitInOrder(t, ns, page, deployment)
	}
	require.NoError(t, admin.Delete(t.Context(), page.DeepCopy()))
	awaitInOrder(t, ns, page)
	awaitSilence(t)
	writes = operatorSince(t, mark).ObjectsIn(ns).Writes().Accepted()
	t.Logf("%d edits: %d writes", 2*edits+1, len(writes))
	require.LessOrEqual(t, len(writes), most*(2*edits+1), "%s", writes)
	require.Empty(t, writes.Only(verbIs("delete")))

	mine := replaceBetween(t, proxies, ns)
	awaitReady(t, ns)
	awaitSilence(t)
	v := awaitReady(t, ns)
	require.Len(t, v.Status.ManagedResources, 4)
	for _, obj := range declared(t, ns, web) {
		live := requireInOrder(t, ns, obj)
		require.Equal(t, v1alpha1.ObjectApplied, entry(t, v, obj.GetKind(), obj.GetName()).State)
		if obj.GetName() != page.GetName() { // of which the UID is known to the one that has made it again
			require.Equal(t, string(live.GetUID()), entry(t, v, obj.GetKind(), obj.GetName()).UID)
		}
	}
	require.Equal(t, mine.ResourceVersion, get(t, mine).GetResourceVersion())
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitGone(t, v)
	for _, obj := range declared(t, ns, web) {
		awaitGone(t, obj)
	}
	require.Equal(t, mine.ResourceVersion, get(t, mine).GetResourceVersion())
	awaitSilence(t)
}

// replaceBetween has two operators prune the ConfigMap old, one after the other, and
// makes another object in its place in between: neither may prune it. Both know that
// it left the manifest before one of them may go on.
func replaceBetween(t *testing.T, proxies []*faultproxy.Proxy, ns string) *corev1.ConfigMap {
	t.Helper()
	mine := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "old", Namespace: ns}}
	var stalls []*faultproxy.Rule
	for _, proxy := range proxies {
		stalls = append(stalls, proxy.Inject(faultproxy.Match{Verb: "get", Namespace: ns, Name: mine.Name}, faultproxy.Stall()))
	}
	setManifest(t, ns, web)
	await(t, func(c *assert.CollectT) {
		for _, stall := range stalls {
			require.NotZero(c, stall.Hits())
		}
	})
	stalls[0].Remove()
	awaitGone(t, mine)
	require.NoError(t, admin.Create(t.Context(), mine))
	stalls[1].Remove()
	return mine
}
