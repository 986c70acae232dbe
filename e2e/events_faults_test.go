package e2e

import (
	"errors"
	"fmt"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/events/recorder"
)

// eventsResource are the Events.
var eventsResource = eventsv1.SchemeGroupVersion.WithResource("events")

// TestF33RefusedEvents: Events that the API server refuses, because of a missing right
// or a namespace that is going, are counted, and logged once. Others do not wait.
func TestF33RefusedEvents(t *testing.T) {
	t.Parallel()
	const many = 30
	allowed, forbidden := newNamespace(t), newNamespace(t)
	r := startRecorder(t, eventWriter(t, allowed), recorder.Options{})
	for i := range many {
		r.Record([]events.Event{changeReverted(forbidden, fmt.Sprintf("page-%d", i)), changeReverted(allowed, fmt.Sprintf("page-%d", i))})
	}
	await(t, func(c *assert.CollectT) {
		require.Equal(c, many, r.count(c, "recorded"))
		require.Equal(c, many, r.count(c, "refused"))
	})
	require.Len(t, r.events(t, allowed), many)
	require.Empty(t, r.events(t, forbidden))
	require.Len(t, r.messages("the API server refuses an Event"), 1, "it is logged once")
	require.Len(t, r.messages("the write is retried"), 1)
}

// TestF33EventsOfATerminatingNamespace: nothing can be created in a namespace that is
// going, and no caller waits for it.
func TestF33EventsOfATerminatingNamespace(t *testing.T) {
	t.Parallel()
	const many = 30
	ns, going := newNamespace(t), newNamespace(t)
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: going, Name: "held", Finalizers: []string{"example.com/wait"}}}
	require.NoError(t, admin.Create(t.Context(), held))
	t.Cleanup(func() { _ = mergePatch(held, `{"metadata":{"finalizers":null}}`) })
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: going}}
	require.NoError(t, admin.Delete(t.Context(), namespace.DeepCopy()))
	await(t, func(c *assert.CollectT) {
		// The admission that refuses learns of it a moment later.
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: going, GenerateName: "probe-"}}
		require.True(c, apierrors.HasStatusCause(admin.Create(t.Context(), probe), corev1.NamespaceTerminatingCause))
	})
	r := startRecorder(t, eventWriter(t, ""), recorder.Options{})
	for i := range many {
		r.Record([]events.Event{changeReverted(going, fmt.Sprintf("page-%d", i)), changeReverted(ns, fmt.Sprintf("page-%d", i))})
	}
	await(t, func(c *assert.CollectT) {
		require.Equal(c, many, r.count(c, "recorded"))
		require.Equal(c, many, r.count(c, "refused"))
	})
	require.EqualValues(t, 2*many, r.writes.Load(), "each is tried once")
	require.Len(t, r.messages("the API server refuses an Event"), 1)
	require.Empty(t, r.messages("the write is retried"))
}

// startBehindProxy starts a Recorder that reaches the API server through a proxy.
func startBehindProxy(t *testing.T, options recorder.Options) (*testRecorder, *faultproxy.Proxy) {
	t.Helper()
	proxy, err := faultproxy.Start(eventWriter(t, ""))
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	return startRecorder(t, proxy.Config(), options), proxy
}

// TestF33ServerIsAway: while the API server does not answer, or not well, Events wait.
func TestF33ServerIsAway(t *testing.T) {
	t.Parallel()
	const many = 100
	ns := newNamespace(t)
	r, proxy := startBehindProxy(t, recorder.Options{})
	record := func() {
		for i := range many {
			r.Record([]events.Event{changeReverted(ns, fmt.Sprintf("page-%d", i))})
		}
	}
	record()
	await(t, func(c *assert.CollectT) { require.Equal(c, many, r.count(c, "recorded")) })
	proxy.Down()
	for i := range many {
		r.Record([]events.Event{changeReverted(ns, fmt.Sprintf("other-%d", i))})
	}
	await(t, func(c *assert.CollectT) { require.Len(c, r.messages("the write is retried"), 1) })
	record()
	forbidden := apierrors.NewForbidden(eventsResource.GroupResource(), "", errors.New("no roles yet"))
	first := proxy.Inject(faultproxy.Match{Resource: eventsResource}, faultproxy.Status(forbidden).Times(20))
	proxy.Inject(faultproxy.Match{Resource: eventsResource}, faultproxy.Status(apierrors.NewInternalError(errors.New("no etcd"))).Times(20))
	require.NoError(t, proxy.Up())
	await(t, func(c *assert.CollectT) { require.Equal(c, 3*many, r.count(c, "recorded")) })
	require.Equal(t, 20, first.Hits(), "an API server that starts forbids")
	require.Zero(t, r.count(t, "refused")+r.count(t, "dropped"))
	all := r.events(t, ns)
	require.Len(t, all, 2*many)
	require.Equal(t, 3*many, sum(all))
	require.Len(t, r.messages("the write is retried"), 3, "one for each kind of failure: away, forbidden, broken")
}

// TestF33ForbiddenAfterAnOutage: an API server that was away for minutes, and then forbids
// everything until it has read its roles, costs no Event. One that goes on to is believed.
func TestF33ForbiddenAfterAnOutage(t *testing.T) {
	t.Parallel()
	const attempts, most = 20, 6 // most is how often in a row an Event is forbidden before it is refused
	ns, clock := newNamespace(t), testingclock.NewFakeClock(time.Now())
	r, proxy := startBehindProxy(t, recorder.Options{Clock: clock})
	outage := func(name string, forbids int) {
		proxy.Down()
		r.Record([]events.Event{changeReverted(ns, name)})
		start, writes := clock.Now(), r.writes.Load()
		stepUntil(t, clock, func(c *assert.CollectT) {
			clock.Step(4 * time.Second)
			require.GreaterOrEqual(c, r.writes.Load()-writes, int64(attempts))
		})
		require.Greater(t, clock.Since(start), 2*time.Minute)
		forbidden := apierrors.NewForbidden(eventsResource.GroupResource(), "", errors.New("no roles yet"))
		fault := proxy.Inject(faultproxy.Match{Resource: eventsResource}, faultproxy.Status(forbidden).Times(forbids))
		require.NoError(t, proxy.Up())
		stepUntil(t, clock, func(c *assert.CollectT) { require.Equal(c, forbids, fault.Hits()) })
	}
	outage("page", most-1)
	stepUntil(t, clock, func(c *assert.CollectT) { require.Equal(c, 1, r.count(c, "recorded")) })
	require.Zero(t, r.count(t, "refused")+r.count(t, "dropped"))
	require.Len(t, r.events(t, ns), 1)

	outage("other", most)
	stepUntil(t, clock, func(c *assert.CollectT) { require.Equal(c, 1, r.count(c, "refused")) })
	require.Len(t, r.events(t, ns), 1)
}

// TestAnswersThatGetLost: an Event whose creation was not answered is not there
// twice, and is counted once.
func TestAnswersThatGetLost(t *testing.T) {
	t.Parallel()
	const many = 20
	ns := newNamespace(t)
	r, proxy := startBehindProxy(t, recorder.Options{})
	lost := proxy.Inject(faultproxy.Match{Resource: eventsResource}, faultproxy.CutAfter(0).Times(many))
	for range 3 {
		for i := range many {
			r.Record([]events.Event{changeReverted(ns, fmt.Sprintf("page-%d", i))})
		}
	}
	await(t, func(c *assert.CollectT) { require.Equal(c, 3*many, r.count(c, "recorded")) })
	require.Equal(t, many, lost.Hits())
	all := r.events(t, ns)
	require.Len(t, all, many)
	require.Equal(t, 3*many, sum(all))
}

// TestF33StopWithAFullQueue: what waits when the operator ends is written, also more
// than client-go would keep, and what came within the time between two writes. The clock
// stands still, so that the time for it does not end before a slow machine has written all.
func TestF33StopWithAFullQueue(t *testing.T) {
	t.Parallel()
	const many = 1200
	ns, clock := newNamespace(t), testingclock.NewFakeClock(time.Now())
	r := startRecorder(t, eventWriter(t, ""), recorder.Options{Clock: clock})
	for range 2 {
		for i := range many {
			r.Record([]events.Event{changeReverted(ns, fmt.Sprintf("page-%d", i))})
		}
	}
	start, stopped := time.Now(), make(chan struct{})
	go func() {
		r.stop()
		close(stopped)
	}()
	select {
	case <-stopped:
	case <-time.After(4 * patience):
		clock.Step(events.FlushTimeout)
		<-stopped
	}
	t.Logf("%d Events were written in %s", many, time.Since(start).Round(time.Millisecond))
	all := r.events(t, ns)
	require.Equal(t, many, len(all)) //nolint:testifylint // Len would print them
	require.Equal(t, 2*many, sum(all))
	require.Equal(t, 2*many, r.count(t, "recorded"))
}

// TestF33StopWhileTheServerIsAway: the end of the operator does not wait for ever, and
// what is lost is counted and logged. So is what comes after.
func TestF33StopWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	r, proxy := startBehindProxy(t, recorder.Options{})
	proxy.Down()
	r.Record([]events.Event{changeReverted(ns, "a"), changeReverted(ns, "b"), changeReverted(ns, "a")})
	start := time.Now()
	r.stop()
	require.Less(t, time.Since(start), 3*stopTimeout/2)
	require.Equal(t, 3, r.count(t, "dropped"))
	r.Record([]events.Event{changeReverted(ns, "a")})
	require.Equal(t, 4, r.count(t, "dropped"))
	require.Equal(t, 4, r.count(t, "emitted"))
	require.Len(t, r.messages("Events are dropped"), 1)
}

// TestEventsAreGivenUp: what cannot be written for an hour is no news any more.
func TestEventsAreGivenUp(t *testing.T) {
	t.Parallel()
	ns, clock := newNamespace(t), testingclock.NewFakeClock(time.Now())
	r, proxy := startBehindProxy(t, recorder.Options{Clock: clock})
	proxy.Down()
	r.Record([]events.Event{changeReverted(ns, "a"), changeReverted(ns, "a")})
	stepUntil(t, clock, func(c *assert.CollectT) {
		clock.Step(10 * time.Minute)
		require.Equal(c, 2, r.count(c, "dropped"))
	})
	require.NoError(t, proxy.Up())
	r.Record([]events.Event{changeReverted(ns, "a")})
	stepUntil(t, clock, func(c *assert.CollectT) { require.Equal(c, 1, r.count(c, "recorded")) })
	require.Equal(t, 1, sum(r.events(t, ns)))
}

// TestF33EventStorm: thousands of Events of a minute make at most a write in ten seconds for
// each object and reason, and none of them is lost.
func TestF33EventStorm(t *testing.T) {
	t.Parallel()
	const rounds = 10
	objects := suite.Size(150, 500)
	ns, clock := newNamespace(t), testingclock.NewFakeClock(time.Now())
	r := startRecorder(t, eventWriter(t, ""), recorder.Options{Clock: clock})
	for round := range rounds {
		for i := range objects {
			name := fmt.Sprintf("page-%d", i)
			r.Record([]events.Event{changeReverted(ns, name), driftCorrected(ns, name)})
		}
		if round == 0 { // otherwise the first write has it all
			awaitRecorded(t, r, 2*objects, clock)
		}
		clock.Step(time.Minute / rounds)
	}
	require.Equal(t, 2*objects*rounds, r.count(t, "emitted"))
	awaitRecorded(t, r, 2*objects*rounds, clock)
	for _, namespace := range []string{ns, metav1.NamespaceDefault} {
		all := r.events(t, namespace)
		require.Len(t, all, objects, "no object is missing")
		for _, e := range all {
			require.Equal(t, rounds, occurrences(e), e.Name)
		}
	}
	t.Logf("%d Events were told with %d writes", 2*objects*rounds, r.writes.Load())
	require.LessOrEqual(t, r.writes.Load(), int64(2*objects*(1+60/10+1)))
	require.Zero(t, r.count(t, "refused")+r.count(t, "dropped"))
}

// awaitRecorded waits until so many Events are recorded, for as long as a storm may
// take, and moves the clock on.
func awaitRecorded(t *testing.T, r *testRecorder, want int, clock *testingclock.FakeClock) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		clock.Step(time.Second / 10)
		require.Equal(c, want, r.count(c, "recorded"))
	}, 4*patience, poll)
}
