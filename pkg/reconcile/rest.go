package reconcile

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/trigger"
)

// rest is how long the VidraResource is left alone without a cause.
func (p *pass) rest(o outcome) time.Duration {
	s := p.state
	unsolved := len(p.unsolved)
	for _, o := range s.manifest {
		if p.held(o) {
			if _, waits := p.unsolved[o.desired.key]; waits {
				unsolved-- // it has a time of its own
			}
		}
	}
	switch pending := o.stalled == nil && (o.blocked != nil || o.source != nil || s.problems() > 0 || unsolved > 0); {
	case pending && s.due(p.now):
		backoff := wait.Backoff{Duration: retryMin, Factor: 2, Jitter: 0.2, Steps: maxSteps, Cap: retryMax}
		delay := backoff.Step()
		for range min(s.retries, maxSteps) {
			delay = backoff.Step()
		}
		s.retries++
		s.nextRetry = p.now.Add(delay)
	case !pending && p.all:
		s.retries, s.nextRetry = 0, time.Time{}
	}
	until := s.nextResync
	earlier := func(then time.Time) {
		if then.Before(until) {
			until = then
		}
	}
	if !s.nextRetry.IsZero() {
		earlier(s.nextRetry)
	}
	if s.heals > 0 {
		earlier(s.healsSince.Add(healFlush))
	}
	if o.unseen != "" {
		earlier(p.now.Add(witnessRetry))
	}
	if p.healthWaits {
		earlier(s.healthUntil)
	}
	if p.outdatedWait {
		earlier(p.now.Add(time.Second))
	}
	if o.stalled == nil {
		for _, then := range p.appointments() {
			if then.After(p.now) { // otherwise this pass has kept it
				earlier(then)
			}
		}
		if !p.all && s.backstopDue(p.now) { // which a heal does not keep
			earlier(p.now)
		}
	}
	before := watched(s.status, p.vr.Generation)
	for _, status := range s.watches {
		if tolerable(status, before, p.now) {
			earlier(status.Since.Add(watchGrace))
		}
	}
	return max(until.Sub(p.now), time.Millisecond)
}

// requeue returns when the VidraResource is looked at again without a cause. That is
// routine, even if this pass was not, unless a heal is held until then.
func (p *pass) requeue(rest time.Duration) reconcile.Result {
	result := reconcile.Result{RequeueAfter: rest, Priority: ptr.To(0)}
	if next := p.nextHeld(); !next.IsZero() && !next.After(p.now.Add(rest)) {
		// It is due at a time, however long this pass took.
		result = reconcile.Result{RequeueAfter: max(time.Until(next), time.Millisecond), Priority: ptr.To(trigger.ContendedPriority)}
	}
	return result
}

// appointments are the times at which something that is left alone is looked at
// again.
func (p *pass) appointments() []time.Time {
	s := p.state
	var times []time.Time
	if !s.nextBackstop.IsZero() {
		times = append(times, s.nextBackstop)
	}
	if s.suspects() {
		times = append(times, s.suspectsDue)
	}
	if !p.heldUntil.IsZero() {
		times = append(times, p.heldUntil)
	}
	for o := range s.all() {
		if o.drift != nil {
			times = append(times, o.drift.until)
		}
		switch {
		case o.desired == nil || !o.contention.contended():
		case p.held(o):
			times = append(times, o.contention.notBefore)
		default:
			times = append(times, o.contention.lastHeal.Add(contentionWindow+time.Second))
		}
	}
	return times
}
