package reconcile

import (
	"context"
	"sync"
	"time"

	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// lane orders the work on one VidraResource: at most one reconcile, and heals of single objects beside it.
//
// Its lock guards the state of the VidraResource. A reconcile enters the lane, and sends requests and compares whole statuses without the lock, by apart. Meanwhile, heals
// change only the objects that they heal, and the unreported results. At any time either a reconcile or a heal works on an object: a reconcile
// reserves the objects that it applies, and gives one to the loop of objects for an edit before its turn; each apply or removal waits for the heal of
// its own object. New labels of shards, a destination that became another cluster, and closeLocked wait for all heals.
type lane struct {
	mu sync.Mutex
	// ended is signalled when a heal has ended. The first waitLocked sets its lock.
	ended sync.Cond
	// entered reports that a reconcile holds mu.
	entered bool
	// healing counts the heals.
	healing int
	// closed reports that no heal begins any more.
	closed bool
}

// enter takes the lock for a reconcile. Heals in flight continue, on copies of the state.
func (l *lane) enter() {
	l.mu.Lock()
	l.entered = true
}

func (l *lane) leave() {
	l.entered = false
	l.mu.Unlock()
}

// apart calls a function that needs no state, such as one that sends requests, without the lock, so that heals run meanwhile. It locks again afterwards.
func (l *lane) apart(do func()) {
	if !l.entered {
		do()
		return
	}
	l.leave()
	defer l.enter()
	do()
}

// yield lets waiting heals begin between two steps of a reconcile that take milliseconds for thousands of objects.
func (l *lane) yield() { l.apart(func() {}) }

// pause waits for a time, or until ctx ends, without the lock.
func (l *lane) pause(ctx context.Context, delay time.Duration) {
	l.apart(func() {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
		}
	})
}

// waitLocked waits until a condition holds, which the end of a heal may bring about. mu must be held.
func (l *lane) waitLocked(done func() bool) {
	if l.ended.L == nil { // otherwise others that wait read it without mu
		l.ended.L = &l.mu
	}
	for !done() {
		entered := l.entered
		l.entered = false
		l.ended.Wait()
		l.entered = entered
	}
}

// awaitLocked waits for the heal of an object. mu must be held.
func (l *lane) awaitLocked(o *plan.Object) {
	l.waitLocked(func() bool { return !o.Turn.Healing() })
}

// beginLocked and endLocked are the two ends of a heal.
func (l *lane) beginLocked(o *plan.Object) {
	o.Turn.Heal()
	l.healing++
}

func (l *lane) endLocked(o *plan.Object) {
	o.Turn.EndHeal()
	l.healing--
	l.ended.Broadcast()
}

// endWith ends a heal that leaves its cause to a reconcile: to the task of the running one, if that was still to begin.
func (l *lane) endWith(one *healing, cause trigger.Cause) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one.due != nil {
		one.due.Cause = cause
	}
	l.endLocked(one.object)
}

// closeLocked has no heal begin any more, and waits for those that run. mu must be held.
func (l *lane) closeLocked() {
	l.closed = true
	l.waitLocked(func() bool { return l.healing == 0 })
}

// close is closeLocked of a lane that no reconcile has entered.
func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closeLocked()
}
