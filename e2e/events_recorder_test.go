package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedeventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/events/recorder"
)

// recorder is a Recorder of a test, and what is known of it.
type testRecorder struct {
	*recorder.Recorder
	// instance distinguishes its Events from others'.
	instance string
	// writes counts its requests to the API server.
	writes  atomic.Int64
	metrics *prometheus.Registry
	// stop ends it and waits until it has ended.
	stop func()

	// mu guards logged.
	mu     sync.Mutex
	logged []string
}

// eventWriter makes a user who may create and patch Events, and nothing else: in
// one namespace, or everywhere if there is none.
func eventWriter(t *testing.T, namespace string) *rest.Config {
	t.Helper()
	name := unique(t)
	rules := []rbacv1.PolicyRule{{APIGroups: []string{eventsv1.GroupName}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}}}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}}
	meta := metav1.ObjectMeta{Name: name, Namespace: namespace}
	require.NoError(t, admin.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}))
	if namespace == "" {
		require.NoError(t, admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}))
	} else {
		require.NoError(t, admin.Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}))
	}
	await(t, func(c *assert.CollectT) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: name, ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: eventsv1.GroupName, Resource: "events", Verb: "create", Namespace: namespace,
			},
		}}
		require.NoError(c, admin.Create(context.Background(), review))
		require.True(c, review.Status.Allowed)
	})
	config, err := env.UserConfig(name)
	require.NoError(t, err)
	return config
}

// startRecorder starts a Recorder that ends with the test.
func startRecorder(t *testing.T, config *rest.Config, options recorder.Options) *testRecorder {
	t.Helper()
	r := &testRecorder{metrics: prometheus.NewRegistry(), instance: options.Instance}
	if r.instance == "" {
		r.instance = unique(t)
		options.Instance = r.instance
	}
	options.Log = funcr.New(func(_, args string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.logged = append(r.logged, args)
	}, funcr.Options{})
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &countedTrip{next: next, count: &r.writes} })
	writer, err := typedeventsv1.NewForConfig(config)
	require.NoError(t, err)
	r.Recorder, err = recorder.New(writer, r.metrics, options)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Start(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		assert.NoError(t, <-ended)
	})
	t.Cleanup(r.stop)
	return r
}

// countedTrip counts requests.
type countedTrip struct {
	next  http.RoundTripper
	count *atomic.Int64
}

func (c *countedTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	c.count.Add(1)
	return c.next.RoundTrip(r)
}

// events lists the Events that the Recorder has written in a namespace, the oldest
// first.
func (r *testRecorder) events(t require.TestingT, namespace string) []eventsv1.Event {
	all := &eventsv1.EventList{}
	require.NoError(t, admin.List(context.Background(), all, client.InNamespace(namespace)))
	mine := slices.DeleteFunc(all.Items, func(e eventsv1.Event) bool { return e.ReportingInstance != r.instance })
	slices.SortFunc(mine, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	return mine
}

// count is how many Events had an outcome.
func (r *testRecorder) count(t require.TestingT, outcome string) int {
	families, err := r.metrics.Gather()
	require.NoError(t, err)
	n := 0
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "outcome" && label.GetValue() == outcome {
					n += int(metric.GetCounter().GetValue())
				}
			}
		}
	}
	return n
}

// messages are the lines that the Recorder has logged and that hold a text.
func (r *testRecorder) messages(text string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.logged), func(line string) bool { return !strings.Contains(line, text) })
}

// occurrences is how often the subject of an Event has happened.
func occurrences(e eventsv1.Event) int {
	if e.Series == nil {
		return 1
	}
	return int(e.Series.Count)
}

// sum is how often the subject of Events has happened.
func sum(all []eventsv1.Event) int {
	n := 0
	for _, e := range all {
		n += occurrences(e)
	}
	return n
}

// changeReverted is an Event about a change of a ConfigMap that was reverted.
func changeReverted(namespace, name string) events.Event {
	return events.Event{
		Type: corev1.EventTypeNormal, Reason: events.ReasonChangeReverted, Action: events.ActionRestore,
		Note:      "VidraResource web manages this object and reverted data.greeting",
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: namespace, Name: name},
		Related:   &corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Name: "web"},
	}
}

// driftCorrected is the same, told to the VidraResource.
func driftCorrected(namespace, name string) events.Event {
	e := changeReverted(namespace, name)
	object := e.Regarding
	e.Reason, e.Regarding, e.Related = events.ReasonDriftCorrected, *e.Related, &object
	return e
}

// stepUntil moves a clock on, second by second, until condition holds.
func stepUntil(t *testing.T, clock *testingclock.FakeClock, condition func(c *assert.CollectT)) {
	t.Helper()
	await(t, func(c *assert.CollectT) {
		clock.Step(time.Second)
		condition(c)
	})
}

// TestF33OneSeries: what recurs is one Event that counts, although the objects'
// resourceVersions move on.
func TestF33OneSeries(t *testing.T) {
	t.Parallel()
	ns, clock := newNamespace(t), testingclock.NewFakeClock(time.Now())
	r := startRecorder(t, eventWriter(t, ""), recorder.Options{Clock: clock})
	e := changeReverted(ns, "page")
	var last time.Time
	for version := range 3 {
		e.Regarding.ResourceVersion, e.Related.ResourceVersion = fmt.Sprint(version), fmt.Sprint(10+version)
		e.Note += "!" // what varies does not make another Event
		last = clock.Now()
		r.Record([]events.Event{e})
		stepUntil(t, clock, func(c *assert.CollectT) {
			all := r.events(c, ns)
			require.Len(c, all, 1)
			require.Equal(c, version+1, occurrences(all[0]))
		})
	}
	told := r.events(t, ns)[0]
	require.Equal(t, "VidraResource web manages this object and reverted data.greeting!", told.Note)
	require.Empty(t, told.Regarding.ResourceVersion)
	require.WithinDuration(t, last, told.Series.LastObservedTime.Time, time.Millisecond)
	require.True(t, told.Series.LastObservedTime.After(told.EventTime.Time))

	e.Related.UID = "another"
	r.Record([]events.Event{e})
	await(t, func(c *assert.CollectT) {
		require.Len(c, r.events(c, ns), 2, "another related object is another Event")
	})
}

// TestSeriesEnds: after six quiet minutes, the same is a new Event.
func TestSeriesEnds(t *testing.T) {
	t.Parallel()
	ns, clock := newNamespace(t), testingclock.NewFakeClock(time.Now())
	r := startRecorder(t, eventWriter(t, ""), recorder.Options{Clock: clock})
	told := 0
	occurs := func(events_, counted int) {
		r.Record([]events.Event{changeReverted(ns, "page")})
		told++
		steps := 0
		await(t, func(c *assert.CollectT) {
			// A write waits for ten seconds at most. With five minutes, many more would
			// end the series where the API server is slow to answer.
			if steps++; steps < 30 {
				clock.Step(time.Second)
			}
			require.Equal(c, told, r.count(c, "recorded"), "no write is under way")
			all := r.events(c, ns)
			require.Len(c, all, events_)
			require.Equal(c, counted, occurrences(all[events_-1]))
		})
	}
	occurs(1, 1)
	clock.Step(5 * time.Minute)
	occurs(1, 2)
	clock.Step(5 * time.Minute)
	occurs(1, 3)
	clock.Step(6*time.Minute + time.Second)
	occurs(2, 1)
	occurs(2, 2)
}

// TestDeletedEventIsWrittenAgain: an Event that a user deletes is there again when
// it recurs, with its count.
func TestDeletedEventIsWrittenAgain(t *testing.T) {
	t.Parallel()
	ns, clock := newNamespace(t), testingclock.NewFakeClock(time.Now())
	r := startRecorder(t, eventWriter(t, ""), recorder.Options{Clock: clock})
	for round := range 3 {
		r.Record([]events.Event{changeReverted(ns, "page")})
		stepUntil(t, clock, func(c *assert.CollectT) {
			all := r.events(c, ns)
			require.Len(c, all, 1)
			require.Equal(c, round+1, occurrences(all[0]))
		})
		told := r.events(t, ns)[0]
		require.NoError(t, admin.Delete(t.Context(), &told))
	}
	await(t, func(c *assert.CollectT) { require.Equal(c, 3, r.count(c, "recorded")) }) // when the answer is there
}

// TestEventNamesItsWriter: who wrote an Event is the Pod, or else the host; it is not
// parallel because it sets the environment.
func TestEventNamesItsWriter(t *testing.T) {
	host, err := os.Hostname()
	require.NoError(t, err)
	config := eventWriter(t, "")
	for want, pod := range map[string]string{"vidra-operator-7d9f": "vidra-operator-7d9f", host: "", strings.Repeat("a", 125) + "…": strings.Repeat("a", 253)} {
		ns := newNamespace(t)
		t.Setenv("POD_NAME", pod)
		writer, err := typedeventsv1.NewForConfig(config)
		require.NoError(t, err)
		r, err := recorder.New(writer, prometheus.NewRegistry(), recorder.Options{})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		r.Record([]events.Event{changeReverted(ns, "page"), driftCorrected(ns, ns)})
		cancel()
		require.NoError(t, r.Start(ctx), "what waits is written at the end")

		told := &eventsv1.EventList{}
		require.NoError(t, admin.List(t.Context(), told, client.InNamespace(ns)))
		require.Len(t, told.Items, 1)
		require.Equal(t, want, told.Items[0].ReportingInstance)
		require.Equal(t, "vidra-operator", told.Items[0].ReportingController)

		require.NoError(t, admin.List(t.Context(), told, client.InNamespace(metav1.NamespaceDefault)))
		require.True(t, slices.ContainsFunc(told.Items, func(e eventsv1.Event) bool {
			return e.Regarding.Kind == v1alpha1.Kind && e.Related != nil && e.Related.Name == ns
		}), "an Event about what has no namespace is in the namespace default")
	}
}

// TestF33LongNote: a note that is longer than the API server accepts, or not even
// text, is shortened instead of lost.
func TestF33LongNote(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	r := startRecorder(t, eventWriter(t, ""), recorder.Options{})
	for name, note := range map[string]string{
		"long": strings.Repeat("a", 1025), "runes": "a" + strings.Repeat("😀", 600), "bytes": strings.Repeat("\xff", 1024), "control": "a\x00b\nc",
	} {
		e := changeReverted(ns, name)
		e.Note = note
		e.Regarding.FieldPath = note
		r.Record([]events.Event{e})
	}
	r.stop()
	require.Len(t, r.events(t, ns), 4)
	require.Equal(t, 4, r.count(t, "recorded"))
}

// TestObjectEventsCanBeTurnedOff: the operator's flag leaves the Events at managed
// objects out, and no others. It is not parallel because it restarts the operator.
func TestObjectEventsCanBeTurnedOff(t *testing.T) {
	ns := newNamespace(t)
	stopOperator(t)
	quiet, err := env.StartOperator(t.Context(), testenv.OperatorOptions{Binary: operatorBinary, Args: []string{"--object-events=false"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, quiet.Stop(stopTimeout)) })
	newVidraResource(t, ns, configMap("page", "hello"))
	v := awaitReady(t, ns)
	page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"changed"}}`))
	awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "Restore", "data.greeting")
	require.Empty(t, eventsAbout(t, page))
}

// TestRightsForEvents: the operator's own role has what the Recorder needs, and not
// more.
func TestRightsForEvents(t *testing.T) {
	t.Parallel()
	role := &rbacv1.ClusterRole{}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Name: "vidra-operator"}, role))
	found := 0
	for _, rule := range role.Rules {
		if slices.Contains(rule.Resources, "events") {
			found++
			require.ElementsMatch(t, []string{"create", "patch"}, rule.Verbs)
			require.Equal(t, []string{"events"}, rule.Resources)
		}
	}
	require.Positive(t, found)
}
