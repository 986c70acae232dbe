package reconcile

import (
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/reconcile/contention"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// schedule is when a VidraResource has something to do without a cause. The times of single
// objects are in their states.
type schedule struct {
	// resync is when every object is considered.
	resync time.Time
	// retry is when what failed is tried again; zero if nothing failed. retries counts the
	// attempts in a row that failed.
	retry   time.Time
	retries int
	// flush is when the status counts the reverts; zero if there are none.
	flush time.Time
	// backstop is when the objects are compared with the API server, zero if they are not;
	// suspects, when those that differed are compared again.
	backstop, suspects time.Time
	// health is until when the status does not name other objects that are not healthy.
	health time.Time
}

// retryDue reports whether what failed may be tried again, as far as time is concerned.
func (s *schedule) retryDue(now time.Time) bool { return s.retry.IsZero() || !now.Before(s.retry) }

// flushDue reports whether it is time for the status to count the reverts.
func (s *schedule) flushDue(now time.Time) bool { return !s.flush.IsZero() && !now.Before(s.flush) }

// retryNow forgets how often what failed was tried.
func (s *schedule) retryNow() { s.retries, s.retry = 0, time.Time{} }

// attempted notes whether something is left to be retried after a reconcile, which considered
// all objects or not.
func (s *schedule) attempted(failed, all bool, now time.Time) {
	switch {
	case failed && s.retryDue(now):
		s.retry = now.Add(retryDelay(s.retries))
		s.retries++
	case !failed && all:
		s.retryNow()
	}
}

// wake is when a VidraResource is reconciled again without a cause, and why.
type wake struct {
	at  time.Time
	why string
}

// Why a VidraResource is reconciled again.
const (
	wakeResync     = "every object is considered"
	wakeRetry      = "what failed is tried again"
	wakeFlush      = "the status counts reverts"
	wakeUnobserved = "a watch has not shown an applied object"
	wakeHealth     = "the status names other objects that are not healthy"
	wakeDigest     = "digests of another version are replaced"
	wakeBackstop   = "the objects are compared with the API server"
	wakeSuspects   = "objects that differed are compared again"
	wakeExemption  = "an exemption ends"
	wakeContention = "a contended object is reverted, or its contention ends"
	wakeWatch      = "a watch that is out of order counts as failed"
	wakeStatus     = "the status that another client wrote is corrected"
)

// earliest returns the first of several wakes. Those without a time do not count.
func earliest(wakes []wake) wake {
	var first wake
	for _, w := range wakes {
		if !w.at.IsZero() && (first.at.IsZero() || w.at.Before(first.at)) {
			first = w
		}
	}
	return first
}

// ending is what a reconcile came to, as far as the next one depends on it.
type ending struct {
	// all reports that every object was considered.
	all bool
	// stalled reports that nothing can be done before a user changes the VidraResource;
	// blocked, that nothing or not all can be done at present.
	stalled, blocked bool
	// unobserved reports that a watch has not shown an applied object yet.
	unobserved bool
}

// wakes returns when the VidraResource is reconciled again without a cause.
func (p *planner) wakes(e ending) []wake {
	s := p.state
	wakes := []wake{{s.schedule.resync, wakeResync}, {s.schedule.retry, wakeRetry}, {s.schedule.flush, wakeFlush}}
	if e.unobserved {
		wakes = append(wakes, wake{p.now.Add(observeRetry), wakeUnobserved})
	}
	if p.healthDelayed {
		wakes = append(wakes, wake{s.schedule.health, wakeHealth})
	}
	if p.digestsOutdated {
		wakes = append(wakes, wake{p.now.Add(time.Second), wakeDigest})
	}
	if !e.stalled {
		for _, w := range p.objectWakes() {
			if w.at.After(p.now) { // otherwise this reconcile has kept it
				wakes = append(wakes, w)
			}
		}
		if !e.all && s.backstopDue(p.now) { // a revert does not compare
			wakes = append(wakes, wake{p.now, wakeBackstop})
		}
	}
	before := watched(s.status, p.vr.Generation)
	for _, status := range s.watches {
		if tolerable(status, before, p.now) {
			wakes = append(wakes, wake{status.Since.Add(watchGrace), wakeWatch})
		}
	}
	return wakes
}

// objectWakes returns when objects are considered again that are not as the manifest says, or
// may not be.
func (p *planner) objectWakes() []wake {
	s := p.state
	wakes := []wake{{s.schedule.backstop, wakeBackstop}, {p.heldUntil, wakeExemption}}
	if s.suspects() {
		wakes = append(wakes, wake{s.schedule.suspects, wakeSuspects})
	}
	for o := range s.all() {
		if o.drift != nil {
			wakes = append(wakes, wake{o.drift.until, wakeExemption})
		}
		switch {
		case o.desired == nil || !o.contention.Contended():
		case p.held(o):
			wakes = append(wakes, wake{o.contention.NotBefore, wakeContention})
		default:
			wakes = append(wakes, wake{o.contention.LastHeal.Add(contention.Window + time.Second), wakeContention})
		}
	}
	return wakes
}

// failed reports whether something is left to be retried. A revert that is delayed has a time
// of its own.
func (p *planner) failed(e ending) bool {
	unsolved := len(p.pendingDrift)
	for _, object := range p.state.manifest {
		if p.held(object) {
			if _, waits := p.pendingDrift[object.desired.key]; waits {
				unsolved--
			}
		}
	}
	return !e.stalled && (e.blocked || p.state.problems() > 0 || unsolved > 0)
}

// requeue returns the result of a reconcile after which the VidraResource is reconciled again
// at next. That is routine, even if this reconcile was not, unless a revert is delayed until then.
func (p *planner) requeue(next wake) reconcile.Result {
	result := reconcile.Result{RequeueAfter: max(next.at.Sub(p.now), time.Millisecond), Priority: ptr.To(0)}
	if held := p.nextHeld(); !held.IsZero() && !held.After(p.now.Add(result.RequeueAfter)) {
		// It is due at a time, however long this reconcile took.
		result = reconcile.Result{RequeueAfter: max(time.Until(held), time.Millisecond), Priority: ptr.To(trigger.ContendedPriority)}
	}
	return result
}
