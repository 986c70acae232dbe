package recorder

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	typedeventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/internal/display"
)

const (
	// writeTimeout bounds one write.
	writeTimeout = 10 * time.Second
	// workers is how many Events are written at a time.
	workers = 8
	// retryMin and retryMax bound the wait between two attempts of a failed write.
	retryMin, retryMax = 250 * time.Millisecond, 10 * time.Second
	// maxAge is how long a write is retried. API servers keep Events for an hour.
	maxAge = time.Hour
	// expireInterval is the time between two removals of series that have ended.
	expireInterval = time.Minute
	// maxInstance is the maximum length of a reportingInstance in bytes
	// (k8s.io/kubernetes/pkg/apis/core/validation, ReportingInstanceLengthLimit).
	maxInstance = 128
)

// Options configure a Recorder. The zero value is usable.
type Options struct {
	// Instance is the reportingInstance of every Event. Defaults to the environment
	// variable POD_NAME, else to the host name.
	Instance string
	// WithoutObjects leaves out the Events that regard managed objects.
	WithoutObjects bool
	// Log receives the failures to write, each kind at most once an hour. Defaults to no
	// log.
	Log logr.Logger
	// Clock defaults to the real clock.
	Clock clock.WithTicker
}

// Recorder writes Events, and recurrences as series. It is safe for concurrent use.
//
// client-go's broadcaster is unsuitable, because it drops Events uncounted and leaves its
// writes unlimited: see docs/adr/0012-a-recorder-of-our-own.md.
type Recorder struct {
	client  typedeventsv1.EventsV1Interface
	options Options
	total   *prometheus.CounterVec
	queue   workqueue.TypedDelayingInterface[*series]
	// backoff spaces the attempts to write a series.
	backoff workqueue.TypedRateLimiter[*series]
	// drained is closed when the Recorder stops and no series is pending.
	drained chan struct{}

	// mu guards the fields below.
	mu         sync.Mutex
	aggregator *aggregator
	// stopping is whether pending series are written at once, stopped whether the writes have
	// ended.
	stopping, stopped bool
	// lastLogged is when each kind of failure was logged last.
	lastLogged map[string]time.Time
}

// New returns a Recorder that writes through client and registers its metrics with registerer.
// Nothing is written before Start.
func New(client typedeventsv1.EventsV1Interface, registerer prometheus.Registerer, options Options) (*Recorder, error) {
	total := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vidra_events_total",
		Help: "Events by reason and outcome: emitted (handed to the recorder), recorded (the API server has it, alone or in a series), refused (by the API server) or dropped (too many waited, or the operator ended).",
	}, []string{"reason", "outcome"})
	if err := registerer.Register(total); err != nil {
		return nil, err
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	return &Recorder{
		client: client, options: options, total: total,
		queue:      workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[*series]{Clock: options.Clock}),
		backoff:    workqueue.NewTypedItemExponentialFailureRateLimiter[*series](retryMin, retryMax),
		drained:    make(chan struct{}),
		aggregator: newAggregator(instance(options.Instance)),
		lastLogged: map[string]time.Time{},
	}, nil
}

// instance returns the reportingInstance of a Recorder, which the API server requires.
func instance(name string) string {
	host, _ := os.Hostname() // the controller's name is used without a host name
	return display.Truncate(cmp.Or(name, os.Getenv("POD_NAME"), host, events.Controller), maxInstance)
}

// Record enqueues Events to be written. It returns at once.
func (r *Recorder) Record(all []events.Event) {
	for _, e := range all {
		if r.options.WithoutObjects && e.OnObject {
			continue
		}
		e.Note = events.CleanNote(e.Note)
		r.count(e.Reason, outcomeEmitted, 1)
		s, wait, err := r.add(e)
		if err != nil {
			r.drop(e.Reason, 1, err)
			continue
		}
		r.queue.AddAfter(s, wait)
	}
}

// add adds an Event to the aggregator. It returns its series and how long the series waits.
func (r *Recorder) add(e events.Event) (*series, time.Duration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return nil, 0, errEnded
	}
	now := r.options.Clock.Now()
	s := r.aggregator.add(e, now)
	switch {
	case s == nil:
		return nil, 0, errTooMany
	case r.stopping:
		return s, 0, nil
	}
	return s, s.notBefore.Sub(now), nil
}

// Start writes Events until ctx ends, then the pending ones, for at most FlushTimeout. ctx must
// outlive the controllers that record, so Start must not be a runnable of the manager, which
// stops its runnables before its controllers. Start must be called once.
func (r *Recorder) Start(ctx context.Context) error {
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var running sync.WaitGroup
	for range workers {
		running.Go(func() { r.work(writing) })
	}
	r.expireUntil(ctx)
	r.writeAllNow()
	late := r.options.Clock.NewTimer(events.FlushTimeout)
	defer late.Stop()
	select {
	case <-r.drained:
	case <-late.C():
	}
	cancel()
	r.queue.ShutDown()
	running.Wait()
	r.stop()
	return nil
}

// expireUntil removes series that have ended until ctx ends.
func (r *Recorder) expireUntil(ctx context.Context) {
	ticker := r.options.Clock.NewTicker(expireInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			r.mu.Lock()
			r.aggregator.expire(r.options.Clock.Now())
			r.mu.Unlock()
		}
	}
}

// writeAllNow enqueues all pending series without their wait.
func (r *Recorder) writeAllNow() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopping = true
	for _, s := range r.aggregator.series {
		if s.pending > 0 {
			r.queue.Add(s)
		}
	}
	r.checkDrainedLocked()
}

// checkDrainedLocked closes drained if the Recorder stops and no series is pending. r.mu must
// be held.
func (r *Recorder) checkDrainedLocked() {
	if !r.stopping || r.aggregator.waiting() > 0 {
		return
	}
	select {
	case <-r.drained:
	default:
		close(r.drained)
	}
}

// stop counts the unwritten Events.
func (r *Recorder) stop() {
	lost := map[string]int32{}
	r.mu.Lock()
	r.stopped = true
	for _, s := range r.aggregator.series {
		if s.pending > 0 {
			lost[s.key.reason] += s.pending
		}
	}
	r.mu.Unlock()
	for reason, n := range lost {
		r.drop(reason, n, errEnded)
	}
}

// work writes series until the queue is shut down.
func (r *Recorder) work(ctx context.Context) {
	for {
		s, down := r.queue.Get()
		if down {
			return
		}
		r.write(ctx, s)
		r.queue.Done(s)
	}
}

// write writes the pending occurrences of a series, and enqueues the series again if it has to
// be written later.
func (r *Recorder) write(ctx context.Context, s *series) {
	r.mu.Lock()
	w, wait := r.aggregator.due(s, r.options.Clock.Now(), r.stopping)
	r.mu.Unlock()
	if w == nil {
		if wait > 0 {
			r.queue.AddAfter(s, wait)
		}
		return
	}
	limited, cancel := context.WithTimeout(ctx, writeTimeout)
	err := w.send(limited, r.client)
	cancel()
	switch {
	case err == nil:
		r.finishWrite(s, w, true)
		r.count(s.key.reason, outcomeRecorded, w.occurrences)
	case ctx.Err() != nil: // stop counts it
	case !s.shouldRetry(err):
		r.finishWrite(s, w, false)
		r.count(s.key.reason, outcomeRefused, w.occurrences)
		r.logLimited("the API server refuses an Event", err, s.key)
	case r.tooOld(s):
		r.finishWrite(s, w, false)
		r.drop(s.key.reason, w.occurrences, fmt.Errorf("could not be written for %s: %w", maxAge, err))
	default:
		r.logLimited("cannot write an Event now; the write is retried", err, s.key)
		r.retry(s)
	}
}

// retry enqueues a series after the backoff. Recurrences leave the wait as it is.
func (r *Recorder) retry(s *series) {
	wait := r.backoff.When(s)
	r.mu.Lock()
	if r.stopping {
		wait = min(wait, retryMin)
	}
	s.notBefore = r.options.Clock.Now().Add(wait)
	r.mu.Unlock()
	r.queue.AddAfter(s, wait)
}

// finishWrite records the result of a write.
func (r *Recorder) finishWrite(s *series, w *write, accepted bool) {
	r.backoff.Forget(s)
	r.mu.Lock()
	r.aggregator.finishWrite(s, w, accepted, r.options.Clock.Now())
	r.checkDrainedLocked()
	again, wait := s.pending > 0, writeInterval // it recurred meanwhile
	if r.stopping {
		wait = 0
	}
	r.mu.Unlock()
	if again {
		r.queue.AddAfter(s, wait)
	}
}

// tooOld reports whether a series has been pending for longer than maxAge.
func (r *Recorder) tooOld(s *series) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.options.Clock.Since(s.pendingSince) > maxAge
}
