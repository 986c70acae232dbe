package cluster

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/vidra-operator/vidra/pkg/internal/parallel"
)

// health tracks whether an API server can be reached. It receives the results of requests, and
// sends probes only between a failure and the next success.
type health struct {
	// ctx ends the probes.
	ctx    context.Context
	limits *limits
	// probe sends a request and reports its result to health.
	probe func(context.Context)
	// changed is called when the API server has become unreachable or reachable. It must return
	// at once.
	changed func(*failure)

	// mu guards the fields below.
	mu sync.Mutex
	// outage is nil while requests succeed.
	outage *outage
	// probing is closed when the running probe after a partial failure has ended; nil if
	// there is none.
	probing chan struct{}
	// violations counts consecutive answers beyond a limit, lastViolation is the last time.
	violations    int
	lastViolation time.Time
	// running are the probing goroutines. None is started after ctx has ended.
	running sync.WaitGroup
}

// outage is the time from a failure to the next success.
type outage struct {
	failure *failure
	// confirmed is whether it has lasted long enough to be reported.
	confirmed bool
	// confirm sets confirmed.
	confirm *time.Timer
	// cancelProbes ends the probes.
	cancelProbes context.CancelFunc
	// wake holds a token when the next probe is to be sent at once.
	wake parallel.Signal
	// holdUntil is the time before which no probe is sent and only new credentials end the outage; zero
	// if probes are sent at once.
	holdUntil time.Time
}

// failed records a failed request.
func (h *health) failed(f *failure) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() != nil {
		return
	}
	if h.outage != nil {
		if h.outage.holdUntil.IsZero() {
			h.outage.failure = f
		}
		return
	}
	o := &outage{failure: f, wake: parallel.NewSignal()}
	o.confirm = time.AfterFunc(h.limits.confirm, func() { h.confirm(o) })
	h.beginLocked(o)
}

// beginLocked begins an outage.
func (h *health) beginLocked(o *outage) {
	ctx, over := context.WithCancel(h.ctx)
	o.cancelProbes, h.outage = over, o
	hold := time.Until(o.holdUntil)
	h.running.Go(func() { h.probeUntilOver(ctx, o, hold) })
}

// limitExceeded records an answer that exceeded a limit. The API server is unreachable at once,
// and receives no request for a time that doubles each time, because each such answer may cost
// as much as the limits allow.
func (h *health) limitExceeded(f *failure) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() != nil || h.outage != nil && !h.outage.holdUntil.IsZero() {
		return // another answer that was being read exceeded the limit too
	}
	now := time.Now()
	if now.Sub(h.lastViolation) > h.limits.maxHold*2 {
		h.violations = 0
	}
	hold := min(h.limits.hold<<min(h.violations, 10), h.limits.maxHold)
	h.violations, h.lastViolation = h.violations+1, now
	h.endLocked()
	h.beginLocked(&outage{failure: f, confirmed: true, confirm: time.NewTimer(0), holdUntil: now.Add(hold), wake: parallel.NewSignal()})
	h.changed(f)
}

// awaitProbe probes the API server after a partial failure and blocks until the probe has ended,
// or ctx ends. So the caller of the failed request sees the failure when the state is known.
// Other requests continue.
func (h *health) awaitProbe(ctx context.Context) {
	asked := h.startProbe()
	if asked == nil {
		return
	}
	select {
	case <-ctx.Done():
	case <-asked:
	}
}

// startProbe starts a probe unless one is running. The channel is closed when the probe has
// ended; it is nil if no probe is needed.
func (h *health) startProbe() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() != nil || h.outage != nil { // in an outage there are probes
		return nil
	}
	if h.probing != nil {
		return h.probing
	}
	asked := make(chan struct{})
	h.probing = asked
	h.running.Go(func() {
		defer close(asked)
		h.probe(h.ctx)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.probing = nil
	})
	return asked
}

// confirm reports an outage that still lasts.
func (h *health) confirm(o *outage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.outage == o {
		o.confirmed = true
		h.changed(o.failure)
	}
}

// succeeded records an answer of the API server.
func (h *health) succeeded() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.outage != nil && time.Now().Before(h.outage.holdUntil) {
		return // it was sent before
	}
	if h.endLocked() {
		h.changed(nil)
	}
}

// clear ends an outage without reporting its end.
func (h *health) clear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endLocked()
}

// endLocked ends an outage. It returns whether the outage was reported. h.mu must be held.
func (h *health) endLocked() bool {
	o := h.outage
	if o == nil {
		return false
	}
	h.outage = nil
	o.confirm.Stop()
	o.cancelProbes()
	return o.confirmed
}

// retryNow probes at once during an outage, also during a hold, because something changed that may end it.
func (h *health) retryNow() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.outage == nil {
		return
	}
	h.outage.holdUntil = time.Time{}
	h.outage.wake.Send()
}

// failure returns the fault of an unreachable API server; nil if it is reachable.
func (h *health) failure() *failure {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.outage == nil || !h.outage.confirmed {
		return nil
	}
	return h.outage.failure
}

// present returns the fault of the present outage, confirmed or not; nil if there is none.
func (h *health) present() *failure {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.outage == nil {
		return nil
	}
	return h.outage.failure
}

// unconfirmed reports whether there is an unconfirmed outage.
func (h *health) unconfirmed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.outage != nil && !h.outage.confirmed
}

// stop waits for the goroutines. ctx must have ended.
func (h *health) stop() {
	h.clear() // afterwards failed starts none
	h.running.Wait()
}

// probeUntilOver sends probes, after a hold if there is one, and then with a growing backoff, until ctx ends.
func (h *health) probeUntilOver(ctx context.Context, o *outage, hold time.Duration) {
	backoff := h.limits.backoff
	if hold > 0 {
		select {
		case <-ctx.Done():
			return
		case <-time.After(hold):
		case <-o.wake:
		}
	}
	for {
		h.probe(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(backoff.Step()):
		case <-o.wake:
			backoff = h.limits.backoff
		}
	}
}

// limits are the timeouts and bounds for requests to a remote API server.
type limits struct {
	// connect bounds the connection, and then the TLS handshake.
	connect time.Duration
	// answer bounds the wait for the header of an answer. watchAnswer bounds the wait for a WATCH, before which the API server
	// may have to read all objects of a kind, and writeAnswer the wait for a write, in which the API server waits for
	// webhooks, for a minute in all.
	answer, watchAnswer, writeAnswer time.Duration
	// finish bounds the body of an answer, or an event of a WATCH.
	finish time.Duration
	// held bounds the memory of all unfinished answers, see jsonSize.
	held int64
	// hold is how long no request is sent after an answer that exceeded a limit. It doubles
	// each time, up to maxHold.
	hold, maxHold time.Duration
	// suspect is how long an answer may take until the API server is probed.
	suspect time.Duration
	// probe bounds a probe.
	probe time.Duration
	// confirm is how long failures last until they are reported.
	confirm time.Duration
	// backoff spaces the probes.
	backoff wait.Backoff
}

var defaultLimits = limits{
	connect: 5 * time.Second, answer: 15 * time.Second, watchAnswer: 30 * time.Second, writeAnswer: 65 * time.Second,
	finish: time.Minute, held: maxHeldBytes, hold: 30 * time.Second, maxHold: 10 * time.Minute,
	suspect: 5 * time.Second, probe: 5 * time.Second, confirm: 3 * time.Second,
	backoff: wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Cap: 15 * time.Second, Steps: 10},
}
