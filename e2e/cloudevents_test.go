package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

// retriesMetric is the series that counts the attempts that followed a failed one.
const retriesMetric = "vidra_cloudevents_retries_total"

// TestCloudEvents edits objects while the sink works, fails, stalls and is away.
// All that an Event contains arrives, and what arrives twice has the same id.
func TestCloudEvents(t *testing.T) {
	sink := newCloudEventSink(t)
	startOperatorWithSink(t, sink)
	ns := newNamespace(t)
	newVidraResource(t, ns, web)
	v := awaitReady(t, ns)
	require.Len(t, sink.await(t, "Applied", "4 created")[0].data.Objects, 4)

	login := declaredObject(t, ns, web, "Secret", "login")
	require.NoError(t, mergePatch(login, `{"stringData":{"password":"letmein"}}`))
	awaitInOrder(t, ns, login)
	for _, got := range sink.await(t, "DriftCorrected", "Secret", "data.password (values withheld)") {
		require.Len(t, got.data.Fields, 1)
		require.True(t, got.data.Fields[0].Withheld)
		require.Equal(t, person, got.data.Fields[0].Manager)
	}

	page := declaredObject(t, ns, web, "ConfigMap", "page")
	for _, state := range []string{sinkTakes, sinkFails, sinkStalls, sinkAway} {
		retries := metric(t, operator, retriesMetric)
		sink.set(t, state)
		var notes []string
		for i := range 3 {
			changed := fmt.Sprintf("%s-%d", state, i)
			require.NoError(t, mergePatch(page, `{"data":{"greeting":%q}}`, changed))
			awaitInOrder(t, ns, page)
			notes = append(notes, fmt.Sprintf(`reverted data.greeting to "hello"; "person" had set it to "%s"`, changed))
		}
		switch state {
		case sinkStalls:
			await(t, func(c *assert.CollectT) { require.NotEmpty(c, sink.attempts("DriftCorrected", notes[0])) })
		case sinkFails, sinkAway:
			await(t, func(c *assert.CollectT) {
				require.Greater(c, metric(c, operator, retriesMetric), retries)
			}, "the sink %s, and is tried again", state)
		}
		sink.set(t, sinkTakes)
		for i, note := range notes {
			attempts := sink.await(t, "DriftCorrected", note)
			if i == 0 && (state == sinkFails || state == sinkStalls) {
				require.Greater(t, len(attempts), 1, "the sink %s at first", state)
			}
			requireCloudEvent(t, ns, page, attempts)
		}
	}
	awaitSameAsEvents(t, sink, v)

	// The operator ends with what it did last on its way, once it knows that it did.
	heals := metric(t, operator, healsMetric)
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"last"}}`))
	awaitInOrder(t, ns, page)
	await(t, func(c *assert.CollectT) { require.Greater(c, metric(c, operator, healsMetric), heals) })
	log := operatorLog(t)
	require.NoError(t, operator.Stop(stopTimeout))
	require.NotEmpty(t, sink.taken("DriftCorrected", `"last"`))
	for _, hidden := range []string{"letmein", "bGV0bWVpb", "hunter2", "aHVudGVyMg"} {
		require.NotContains(t, sink.everything(), hidden)
	}
	require.NotContains(t, log, sinkPath, "every client that knows the URL may send to it")
	startSending(t, sink)
}

// requireCloudEvent requires that all attempts are of one heal of the ConfigMap
// page.
func requireCloudEvent(t *testing.T, owner string, page *unstructured.Unstructured, attempts []cloudEventReceived) {
	t.Helper()
	for _, got := range attempts {
		ce := got.event
		require.Equal(t, attempts[0].event.ID(), ce.ID(), "a receiver recognizes a repetition by its ID")
		require.Equal(t, attempts[0].event.Time(), ce.Time())
		require.Equal(t, "com.operators.infrahub.vidraresource.v1.DriftCorrected", ce.Type())
		require.Equal(t, "/apis/infrahub.operators.com/v1alpha1/vidraresources/"+owner, ce.Source())
		require.Equal(t, fmt.Sprintf("v1/ConfigMap/%s/%s", page.GetNamespace(), page.GetName()), ce.Subject())
		require.WithinDuration(t, time.Now(), ce.Time(), time.Minute)
		require.Equal(t, string(getVidraResource(t, owner).UID), got.data.VidraResource.UID)
		require.Equal(t, string(get(t, page).GetUID()), got.data.Object.UID)
		field := got.data.Fields[0]
		require.Equal(t, "/data/greeting", field.Pointer)
		require.Equal(t, `"hello"`, field.Restored)
		require.Equal(t, person, field.Manager)
		require.Equal(t, "Update", field.Operation)
		require.WithinDuration(t, time.Now(), *field.Time, time.Minute)
	}
}

// awaitSameAsEvents waits until each Event that regards a VidraResource arrived as a
// CloudEvent, too.
func awaitSameAsEvents(t *testing.T, sink *cloudEventSink, v client.Object) {
	t.Helper()
	await(t, func(c *assert.CollectT) {
		told := eventsAbout(c, v)
		require.NotEmpty(c, withReason(told, "DriftCorrected"))
		for _, e := range told {
			note, _, _ := strings.Cut(e.Note, ". Further Events that differ") // of which each is a CloudEvent
			require.NotEmpty(c, sink.taken(e.Reason, note), "%s: %s", e.Reason, e.Note)
		}
	}, "what is told in Events is told in CloudEvents")
	require.Empty(t, sink.taken("ChangeReverted"), "what is told on the object is told once")
}

// TestCloudEventsSlowNobody edits objects while the sink stalls, for so long that
// CloudEvents are dropped. Objects are reverted as fast as with a sink that works,
// and what becomes of each CloudEvent is counted.
func TestCloudEventsSlowNobody(t *testing.T) {
	const objects, generous = 100, 3
	sink := newCloudEventSink(t)
	startOperatorWithSink(t, sink)
	ns := newNamespace(t)
	newVidraResource(t, ns, pages(objects))
	awaitReady(t, ns)

	objs := declared(t, ns, pages(objects))
	page := objs[0]
	median := func() time.Duration {
		var took []time.Duration
		for i := range edits {
			before := time.Now()
			require.NoError(t, mergePatch(page, `{"data":{"greeting":"changed %d"}}`, i))
			awaitInOrder(t, ns, page)
			took = append(took, time.Since(before))
		}
		slices.Sort(took)
		return took[len(took)/2]
	}
	median() // the first ones are slower
	works := median()
	sink.set(t, sinkStalls)
	stalls := median()
	t.Logf("reverted in %s while the sink works, in %s while it stalls (medians of %d)", works, stalls, edits)
	// Who waits for a sink that stalls waits for ten seconds; a busy machine is no reason to fail.
	require.Less(t, stalls, max(generous*works, time.Second))

	counted := func(c require.TestingT, outcome string) int {
		return metric(c, operator, fmt.Sprintf(`vidra_cloudevents_total{outcome=%q,reason="DriftCorrected"}`, outcome))
	}
	for start := time.Now(); counted(t, "dropped") == 0; {
		require.Less(t, time.Since(start), 4*patience) // the queue has room for a thousand
		driftStorm(t, objs, time.Second)
	}
	awaitInOrder(t, ns, objs...)

	sink.set(t, sinkTakes)
	await(t, func(c *assert.CollectT) {
		delivered, dropped, failed := counted(c, "delivered"), counted(c, "dropped"), counted(c, "failed")
		require.Equal(c, metric(c, operator, healsMetric), delivered+dropped+failed, "%d delivered, %d dropped, %d failed", delivered, dropped, failed)
		require.Len(c, sink.ids("DriftCorrected"), delivered)
	}, "each CloudEvent is counted once")
	t.Logf("of %d CloudEvents, %d were delivered, %d dropped, %d failed", metric(t, operator, healsMetric),
		counted(t, "delivered"), counted(t, "dropped"), counted(t, "failed"))
	require.Equal(t, 1, strings.Count(operatorLog(t), "CloudEvents are dropped"), "that is said once")
}

// TestCloudEventsBadSink starts operators with sinks that cannot be meant.
func TestCloudEventsBadSink(t *testing.T) {
	t.Parallel()
	for bad, want := range map[string]string{
		"https://me:letmein@sink.example": "has a user in its URL",
		"sink.example/letmein":            "must be an http or https URL",
	} {
		_, err := env.StartOperator(context.Background(), testenv.OperatorOptions{
			Binary: operatorBinary, Args: []string{"--cloudevents-sink=" + bad},
		})
		require.ErrorContains(t, err, "vidra-operator: --cloudevents-sink: ")
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "letmein")
	}
}

// startOperatorWithSink has an operator running that sends CloudEvents, instead of
// the usual one, until the test ends.
func startOperatorWithSink(t *testing.T, sink *cloudEventSink) {
	t.Helper()
	stopOperator(t)
	startSending(t, sink)
	t.Cleanup(func() { require.NoError(t, operator.Stop(stopTimeout)) })
}

// startSending starts an operator that sends CloudEvents to a sink.
func startSending(t *testing.T, sink *cloudEventSink) {
	t.Helper()
	started, err := env.StartOperator(context.Background(), testenv.OperatorOptions{
		Binary: operatorBinary, Args: []string{"--cloudevents-sink=" + sink.url()},
	})
	require.NoError(t, err)
	operator = started
}
