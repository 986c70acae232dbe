package cluster

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// health knows whether an API server can be reached. It is told how requests go, and
// sends some of its own only from a failure to the next success.
type health struct {
	// ctx ends the probes.
	ctx    context.Context
	limits *limits
	// probe sends a request, of which failed or succeeded is told.
	probe func(context.Context)
	// changed is called when the API server has become unreachable, or can be reached
	// again. It must not block.
	changed func(*failure)

	// mu guards outage, asking and running.
	mu sync.Mutex
	// outage is nil while requests succeed.
	outage *outage
	// asking is closed when the probe has ended that a partial failure has begun; nil
	// if there is none under way.
	asking chan struct{}
	// violations counts the answers in a row that exceeded a limit, the last one at violated.
	violations    int
	lastViolation time.Time
	// running are the goroutines that probe; there are no new ones when ctx has ended.
	running sync.WaitGroup
}

// outage is the time from a failure to the next success.
type outage struct {
	failure *failure
	// confirmed says that it has lasted for so long that it is told of.
	confirmed bool
	// confirm is when it will have.
	confirm *time.Timer
	// over ends the probes.
	over context.CancelFunc
	// wake holds a token when the next probe is due now.
	wake chan struct{}
	// held is how long nothing ends the outage, and no probe is sent; zero if one is
	// sent at once.
	held time.Time
}

// failed notes that a request failed.
func (h *health) failed(f *failure) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() != nil {
		return
	}
	if h.outage != nil {
		if h.outage.held.IsZero() {
			h.outage.failure = f
		}
		return
	}
	o := &outage{failure: f, wake: make(chan struct{}, 1)}
	o.confirm = time.AfterFunc(h.limits.confirm, func() { h.confirm(o) })
	h.beginLocked(o)
}

// beginLocked begins an outage.
func (h *health) beginLocked(o *outage) {
	ctx, over := context.WithCancel(h.ctx)
	o.over, h.outage = over, o
	h.running.Go(func() { h.probeUntilOver(ctx, o) })
}

// violated notes an answer that exceeded a limit. The API server counts as unreachable at
// once, and is not asked again for a time that doubles with each violation: each may cost as
// much as the limits allow.
func (h *health) violated(f *failure) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() != nil || h.outage != nil && !h.outage.held.IsZero() {
		return // the other answers that were under way say the same
	}
	now := time.Now()
	if now.Sub(h.lastViolation) > h.limits.holdMost*2 {
		h.violations = 0
	}
	hold := min(h.limits.hold<<min(h.violations, 10), h.limits.holdMost)
	h.violations, h.lastViolation = h.violations+1, now
	h.endLocked()
	h.beginLocked(&outage{failure: f, confirmed: true, confirm: time.NewTimer(0), held: now.Add(hold), wake: make(chan struct{}, 1)})
	h.changed(f)
}

// suspect has a probe find out whether a partial failure is that of the API server,
// and waits for it until ctx ends: whoever sent the request is told no sooner, so that
// it is known by then. Requests of others do not wait.
func (h *health) suspect(ctx context.Context) {
	asked := h.ask()
	if asked == nil {
		return
	}
	select {
	case <-ctx.Done():
	case <-asked:
	}
}

// ask begins a probe, unless one is under way. The channel is closed when it has
// ended; it is nil where nothing is to be found out.
func (h *health) ask() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() != nil || h.outage != nil { // in an outage there are probes
		return nil
	}
	if h.asking != nil {
		return h.asking
	}
	asked := make(chan struct{})
	h.asking = asked
	h.running.Go(func() {
		defer close(asked)
		h.probe(h.ctx)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.asking = nil
	})
	return asked
}

// confirm has an outage told of, unless it is over.
func (h *health) confirm(o *outage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.outage == o {
		o.confirmed = true
		h.changed(o.failure)
	}
}

// succeeded notes that the API server answered.
func (h *health) succeeded() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.outage != nil && time.Now().Before(h.outage.held) {
		return // it was sent before
	}
	if h.endLocked() {
		h.changed(nil)
	}
}

// forget ends an outage that nobody is to be told of any more.
func (h *health) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endLocked()
}

// endLocked ends an outage. It reports whether it was told of.
func (h *health) endLocked() bool {
	o := h.outage
	if o == nil {
		return false
	}
	h.outage = nil
	o.confirm.Stop()
	o.over()
	return o.confirmed
}

// hurry has an outage probed now: something has changed that may end it.
func (h *health) hurry() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.outage == nil {
		return
	}
	select {
	case h.outage.wake <- struct{}{}:
	default:
	}
}

// failure is why the API server cannot be reached; nil if it can.
func (h *health) failure() *failure {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.outage == nil || !h.outage.confirmed {
		return nil
	}
	return h.outage.failure
}

// doubtful says whether there is an outage that is not told of yet.
func (h *health) doubtful() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.outage != nil && !h.outage.confirmed
}

// stop waits for the goroutines. ctx has ended.
func (h *health) stop() {
	h.forget() // afterwards failed starts none
	h.running.Wait()
}

// probeUntilOver probes at once, and then less and less often, until ctx ends.
func (h *health) probeUntilOver(ctx context.Context, o *outage) {
	backoff := h.limits.backoff
	if !o.held.IsZero() {
		timer := time.NewTimer(time.Until(o.held))
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
	}
	for {
		h.probe(ctx)
		timer := time.NewTimer(backoff.Step())
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-o.wake:
			timer.Stop()
			backoff = h.limits.backoff
		}
	}
}

// limits are how long is waited for a remote API server.
type limits struct {
	// connect bounds the making of a connection, and then the TLS handshake.
	connect time.Duration
	// answer bounds the wait for the header of an answer, watchAnswer for that of a
	// WATCH: the API server may have to read a kind first.
	answer, watchAnswer time.Duration
	// finish bounds what comes after the header of an answer, or an event of a WATCH.
	finish time.Duration
	// held is how large the unfinished answers may be together, see jsonSize.
	held int64
	// hold is how long an API server is not asked after an answer that exceeded a limit.
	// It doubles with each one, up to holdMost.
	hold, holdMost time.Duration
	// suspect is how long an answer may take until the API server is probed.
	suspect time.Duration
	// probe bounds a probe.
	probe time.Duration
	// confirm is how long failures last until they are told of.
	confirm time.Duration
	// backoff spaces the probes.
	backoff wait.Backoff
}

var defaultLimits = limits{
	connect: 5 * time.Second, answer: 15 * time.Second, watchAnswer: 30 * time.Second,
	finish: time.Minute, held: heldMost, hold: 30 * time.Second, holdMost: 10 * time.Minute,
	suspect: 5 * time.Second, probe: 5 * time.Second, confirm: 3 * time.Second,
	backoff: wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Cap: 15 * time.Second, Steps: 10},
}
