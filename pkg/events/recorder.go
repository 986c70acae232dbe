package events

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	typedeventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/tools/events"
)

// Controller is the reportingController of every Event.
const Controller = "vidra-operator"

// flushTimeout is how long a stopping Recorder waits for Events to be written.
const flushTimeout = 5 * time.Second

// Recorder writes Events. It is safe for concurrent use.
//
// It is client-go's broadcaster with a sink that counts. The manager's own
// recorder is not used because it cancels what is being written when the
// manager stops, and counts nothing.
type Recorder struct {
	broadcaster events.EventBroadcaster
	recorder    events.EventRecorder
	sink        *countingSink
	total       *prometheus.CounterVec
	// emitted and handled count Events on their way into and out of the
	// broadcaster's queue.
	emitted, handled atomic.Int64
}

// NewRecorder makes a Recorder that writes through client and counts with
// registerer. Start must be called for anything to be written.
func NewRecorder(client typedeventsv1.EventsV1Interface, registerer prometheus.Registerer) (*Recorder, error) {
	total := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vidra_events_total",
		Help: "Events by reason and outcome: emitted (handed to the recorder), recorded (accepted by the API server, a series counts once for each write) or refused.",
	}, []string{"reason", "outcome"})
	if err := registerer.Register(total); err != nil {
		return nil, err
	}
	sink := &countingSink{EventSinkImpl: events.EventSinkImpl{Interface: client}, total: total}
	broadcaster := events.NewBroadcaster(sink)
	return &Recorder{
		broadcaster: broadcaster,
		recorder:    broadcaster.NewRecorder(scheme.Scheme, Controller),
		sink:        sink,
		total:       total,
	}, nil
}

// Record hands Events over to be written and returns at once.
func (r *Recorder) Record(all []Event) {
	for _, e := range all {
		// A typed nil would be taken for an object.
		var related runtime.Object
		if e.Related != nil {
			related = withoutVersion(*e.Related)
		}
		r.total.WithLabelValues(e.Reason, "emitted").Inc()
		r.emitted.Add(1)
		r.recorder.Eventf(withoutVersion(e.Regarding), related, e.Type, e.Reason, e.Action, "%s", Truncate(e.Note, maxNote))
	}
}

// withoutVersion drops what makes two references to one object different.
func withoutVersion(ref corev1.ObjectReference) *corev1.ObjectReference {
	ref.ResourceVersion = ""
	return &ref
}

// Start writes Events until ctx ends, then waits for those that are under way,
// but no longer than flushTimeout. ctx must outlive whoever records: a manager
// stops its runnables before its controllers, so it is not the one to run it.
func (r *Recorder) Start(ctx context.Context) error {
	sinkCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	if err := r.broadcaster.StartRecordingToSinkWithContext(sinkCtx); err != nil {
		return err
	}
	stop, err := r.broadcaster.StartEventWatcher(func(runtime.Object) { r.handled.Add(1) })
	if err != nil {
		return err
	}
	defer stop()
	<-ctx.Done()
	r.flush(sinkCtx)
	return nil
}

// flush waits until what was emitted has been written.
func (r *Recorder) flush(ctx context.Context) {
	const interval, quiet = 20 * time.Millisecond, 5
	idle := 0
	// A timeout means that Events are lost; there is nobody left to tell.
	_ = wait.PollUntilContextTimeout(ctx, interval, flushTimeout, true, func(context.Context) (bool, error) {
		if r.handled.Load() >= r.emitted.Load() && r.sink.active.Load() == 0 {
			idle++
		} else {
			idle = 0
		}
		return idle >= quiet, nil
	})
	r.broadcaster.Shutdown()
}

// countingSink counts what becomes of the Events.
type countingSink struct {
	events.EventSinkImpl
	total  *prometheus.CounterVec
	active atomic.Int64
}

func (s *countingSink) Create(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	return s.count(event, func() (*eventsv1.Event, error) { return s.EventSinkImpl.Create(ctx, event) })
}

func (s *countingSink) Patch(ctx context.Context, event *eventsv1.Event, data []byte) (*eventsv1.Event, error) {
	return s.count(event, func() (*eventsv1.Event, error) { return s.EventSinkImpl.Patch(ctx, event, data) })
}

func (s *countingSink) count(event *eventsv1.Event, write func() (*eventsv1.Event, error)) (*eventsv1.Event, error) {
	s.active.Add(1)
	defer s.active.Add(-1)
	written, err := write()
	outcome := "recorded"
	if err != nil {
		outcome = "refused"
	}
	s.total.WithLabelValues(event.Reason, outcome).Inc()
	return written, err
}
