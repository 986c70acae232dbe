package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// The tests of this file stop the operator, so none of them is parallel: see the
// variable operator.

// pages is a manifest of many ConfigMaps.
func pages(many int) string {
	var documents []string
	for i := range many {
		documents = append(documents, configMap(fmt.Sprintf("page-%d", i), "hello"))
	}
	return manifests(documents...)
}

// TestF33OperatorStopsWithAFullQueue stops an operator that has put hundreds of changes
// back which no Event and no status counts yet. Both count all of them in the end, and
// the status does before the Lease is given back.
func TestF33OperatorStopsWithAFullQueue(t *testing.T) {
	const many, rounds, more = 200, 2, 2
	const all = rounds*many + more
	ns := newNamespace(t)
	stopOperator(t)
	leader := startAnother(t, electing()...)
	newVidraResource(t, ns, pages(many))
	v := awaitReady(t, ns)
	objs := declared(t, ns, pages(many))
	mark := auditMark(t)
	for range rounds { // the second one waits for ten seconds after the first
		for _, obj := range objs {
			require.NoError(t, mergePatch(obj, `{"data":{"greeting":"changed"}}`))
		}
		awaitInOrder(t, ns, objs...)
	}
	for range more { // the second one waits, also where the rounds took longer than that
		require.NoError(t, mergePatch(objs[0], `{"data":{"greeting":"once more"}}`))
		awaitInOrder(t, ns, objs[0])
	}
	await(t, func(c *assert.CollectT) { require.Equal(c, all, metric(c, leader, healsMetric)) }, "the leader knows what it did")
	told := sum(withReason(eventsAbout(t, v), "DriftCorrected"))
	start := time.Now()
	require.NoError(t, leader.Stop(stopTimeout))
	t.Logf("%d of %d heals were told before the end, which took %s", told, all, time.Since(start).Round(time.Millisecond))
	require.Less(t, told, all, "something waited")

	require.Equal(t, all, sum(withReason(eventsAbout(t, v), "DriftCorrected")))
	reverted := 0
	for _, e := range eventsIn(t, ns) {
		if e.Reason == "ChangeReverted" {
			reverted += occurrences(e)
		}
	}
	require.Equal(t, all, reverted)
	status := getVidraResource(t, ns).Status
	require.EqualValues(t, all, status.Drift.Heals)
	listed := status.UnlistedHistory
	for _, e := range status.History {
		listed += e.Count
	}
	require.EqualValues(t, all, listed)

	sent := cluster.RequestsBy(t, mark, operatorUser)
	counted := sent.Only(func(e request) bool { return e.Verb == "patch" && e.Resource == "vidraresources" && e.Name == ns })
	given := sent.Only(func(e request) bool { return e.Verb == "update" && e.Resource == "leases" })
	require.NotEmpty(t, counted)
	require.NotEmpty(t, given)
	require.True(t, given[len(given)-1].Time.After(counted[len(counted)-1].Time), "%s%s", counted, given)
	startOperator(t) // which removes what is left
}

// eventsIn lists the Events of a namespace.
func eventsIn(t require.TestingT, ns string) []eventsv1.Event {
	all := &eventsv1.EventList{}
	require.NoError(t, admin.List(context.Background(), all, client.InNamespace(ns)))
	return all.Items
}

// TestEventsOfAHealAtTheStop has the operator told to end while the API server takes the
// heal of an edit: it waits for the answer, and reports it. It is not parallel because it
// stops the operator.
func TestEventsOfAHealAtTheStop(t *testing.T) {
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello"))
	v := awaitReady(t, ns)
	page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
	asked, ending := make(chan struct{}, 10), make(chan struct{})
	startWebhook(t, ns, false, func(ctx context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if r.UserInfo.Username == operatorUser && r.Operation == admissionv1.Update {
			asked <- struct{}{}
			select {
			case <-ending:
			case <-ctx.Done():
			}
		}
		return nil
	})
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
	<-asked
	startLater(t)
	stopped := make(chan error, 1)
	go func() { stopped <- operator.Stop(stopTimeout) }()
	await(t, func(c *assert.CollectT) {
		require.True(c, strings.Contains(operatorLog(t), "Stopping and waiting for")) //nolint:testifylint // Contains would print the log
	})
	close(ending)
	require.NoError(t, <-stopped)
	require.Equal(t, "hello", greeting(t, page))
	status := getVidraResource(t, ns).Status
	require.EqualValues(t, 1, status.Drift.Heals)
	require.Len(t, status.History, 1)
	require.Equal(t, 1, sum(withReason(eventsAbout(t, v), "DriftCorrected")))
	require.Equal(t, 1, sum(withReason(eventsAbout(t, page), "ChangeReverted")))
}

// TestEventsOfAStatusWriteAtTheStop holds back the answer to the status write that reports an
// addition, and stops the operator. The Event is written once: the next process reads in the status
// that the addition is reported.
func TestEventsOfAStatusWriteAtTheStop(t *testing.T) {
	needsOwnControlPlane(t, faultsInjected)
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello"), withAdditions(v1alpha1.AdditionsWarn))
	v := awaitReady(t, ns)
	page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
	stopOperator(t)
	proxy, through := proxied(t)
	stopping := startAnother(t, through)
	awaitReady(t, ns)
	late := proxy.Inject(faultproxy.Match{Verb: "patch", Resource: v1alpha1.GroupVersion.WithResource("vidraresources"), Subresource: "status"}, faultproxy.Late())
	require.NoError(t, patchedBy("kubectl-label", types.MergePatchType)(ns, page, `{"metadata":{"labels":{"extra":"mine"}}}`))
	awaitCondition(t, ns, drifts(metav1.ConditionTrue, v1alpha1.ReasonDriftDetected), "ConfigMap "+ns+"/page")
	require.Equal(t, 1, late.Hits())
	stopped := make(chan error, 1)
	go func() { stopped <- stopping.Stop(stopTimeout) }()
	await(t, func(c *assert.CollectT) {
		require.True(c, strings.Contains(suite.LogOf(t, stopping), "Stopping and waiting for")) //nolint:testifylint // Contains would print the log
	})
	late.Remove()
	require.NoError(t, <-stopped)
	startOperator(t)
	awaitReady(t, ns)
	require.NoError(t, patchedBy("kubectl-label", types.MergePatchType)(ns, page, `{"metadata":{"labels":{"extra":"yours"}}}`))
	await(t, func(c *assert.CollectT) {
		require.Len(c, withReason(eventsAbout(c, v), "DriftDetected"), 2, "one for each addition")
	})
}

// TestF33LeaseLostWithSomethingToTell cuts a leader off from the statuses, then from its
// Lease. It ends, and reports its heals, though the statuses are not its any more. The next leader reports the rest, which it finds again.
func TestF33LeaseLostWithSomethingToTell(t *testing.T) {
	needsOwnControlPlane(t, faultsInjected)
	ns := newNamespace(t)
	stopOperator(t)
	proxy, through := proxied(t)
	leader := startAnother(t, electing(through)...)
	newVidraResource(t, ns, configMap("page", "hello"))
	v := awaitReady(t, ns)
	awaitEvent(t, v, corev1.EventTypeNormal, "Applied", "Apply", "1 created")

	unavailable := faultproxy.Status(apierrors.NewServiceUnavailable("cut off"))
	vidraResources := v1alpha1.GroupVersion.WithResource("vidraresources")
	proxy.Inject(faultproxy.Match{Verb: "patch", Resource: vidraResources, Subresource: "status"}, unavailable)
	setManifest(t, ns, configMap("page", "good morning"))
	page := declaredObject(t, ns, configMap("page", "good morning"), "ConfigMap", "page")
	awaitInOrder(t, ns, page)
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"mine"}}`))
	awaitInOrder(t, ns, page)
	leases := schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	proxy.Inject(faultproxy.Match{Resource: leases}, unavailable)
	require.Len(t, withReason(eventsAbout(t, v), "Applied"), 1, "the status does not say so yet")
	awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "Restore", `to "good morning"; "person" had set it to "mine"`)

	select {
	case <-leader.Done():
	case <-time.After(2 * patience): // it tries to renew for ten seconds, and may take as long to end
		require.Fail(t, "who cannot renew the Lease still runs")
	}
	require.Error(t, leader.Err(), "so that it is started again")
	require.Len(t, withReason(eventsAbout(t, v), "DriftCorrected"), 1, "it waited for no status")
	awaitEvent(t, page, corev1.EventTypeNormal, "ChangeReverted", "Restore", `to "good morning"; "person" had set it to "mine"`)
	printed, err := os.ReadFile(leader.Log)
	require.NoError(t, err)
	require.Contains(t, string(printed), "the status of VidraResource "+ns+" does not count its last heals: 1")
	require.Nil(t, getVidraResource(t, ns).Status.Drift)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leaseName.Namespace, Name: leaseName.Name}}
	require.NoError(t, admin.Delete(t.Context(), lease)) // which its holder did not release
	startOperator(t)
	awaitReady(t, ns)
	awaitEvent(t, v, corev1.EventTypeNormal, "Applied", "Apply", "0 created, 1 changed")
	require.Equal(t, 2, sum(withReason(eventsAbout(t, v), "Applied")), "each apply is reported once, by the process whose status has it")
	require.Equal(t, 1, sum(withReason(eventsAbout(t, v), "DriftCorrected")))
}
