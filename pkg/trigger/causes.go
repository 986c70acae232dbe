package trigger

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/ownership"
)

// Cause is why an owner has to look at an object.
type Cause struct {
	// Deleted says that the object is gone or has lost the label that is
	// watched.
	Deleted bool
	// Found is the object as somebody left it; nil when it was deleted.
	Found *unstructured.Unstructured
	// Before are the paths that others owned in the object before it was changed; nil if
	// the Index knows. See Index.Before.
	Before *ownership.Paths
	// Unsure says that the cause was concluded, not seen: from a relist, or from
	// what a watch keeps. Look at the object before saying anything of it.
	Unsure bool
	// Since is when the object was first found changed. A newer cause of the same
	// object keeps it until an apply of the object succeeds. Zero if no event told
	// of the change.
	Since time.Time

	// held is whether the memory of Found is counted.
	held bool
}

// Causes is what an owner has to look at.
type Causes struct {
	// Objects that were changed. Only they have to be looked at, unless All.
	Objects map[ObjectKey]Cause
	// All says that every object of the owner has to be looked at.
	All bool
	// Gone says that an object which was to be removed is gone.
	Gone bool
	// Health says that the health of an object is another one, which is no reason to
	// look at what is ours in it; see HealthOf.
	Health bool
}

// Empty says whether there is nothing to look at.
func (c Causes) Empty() bool { return len(c.Objects) == 0 && !c.All && !c.Gone && !c.Health }

// maxCauses is how many causes are kept for one owner, each with an object.
// Beyond it the owner looks at all its objects, which finds the same.
const maxCauses = 4096

// ledger keeps the causes of each owner until it takes them. It is safe for
// concurrent use.
type ledger struct {
	// mu guards causes and contended.
	mu     sync.Mutex
	causes map[Owner]*Causes
	// contended holds the contended objects of each owner, and before which time
	// none of their causes needs a reconcile.
	contended map[Owner]map[ObjectKey]time.Time
	// overflows counts the causes that did not fit.
	overflows prometheus.Counter
	// held bounds the memory of the objects that causes hold.
	held *heldObjects
}

func newLedger(overflows prometheus.Counter, held *heldObjects) ledger {
	return ledger{causes: map[Owner]*Causes{}, contended: map[Owner]map[ObjectKey]time.Time{}, overflows: overflows, held: held}
}

// note adds a cause; it replaces an older one of the same object, whose drift
// the newer state still shows.
func (l *ledger) note(owner Owner, key ObjectKey, cause Cause) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.ofLocked(owner)
	if cause.Before == nil { // what an edit before it added is still there
		cause.Before = c.Objects[key].Before
	}
	older, known := c.Objects[key]
	switch {
	case known:
		cause.Since = older.Since
	case len(c.Objects) >= maxCauses:
		c.All = true
		l.overflows.Inc()
		return
	default:
		cause.Since = time.Now()
	}
	c.Objects[key] = cause
}

// noteAll has the owner look at all its objects.
func (l *ledger) noteAll(owner Owner) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ofLocked(owner).All = true
}

// noteGone tells the owner that an object which was to be removed is gone.
func (l *ledger) noteGone(owner Owner) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ofLocked(owner).Gone = true
}

// noteHealth tells the owner that the health of an object is another one.
func (l *ledger) noteHealth(owner Owner) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ofLocked(owner).Health = true
}

// settle drops the cause of an object that is in order again.
func (l *ledger) settle(owner Owner, key ObjectKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.causes[owner]; c != nil {
		delete(c.Objects, key)
	}
}

// settleRaced keeps the cause of an object that was applied while users changed it: what they
// added since the object was found may be there still. before is what others owned before.
func (l *ledger) settleRaced(owner Owner, key ObjectKey, before *ownership.Paths) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.causes[owner]; c != nil {
		if cause, known := c.Objects[key]; known && cause.Before == nil {
			cause.Before = before
			c.Objects[key] = cause
		}
	}
}

// settleUnlessRaced drops the cause of an object that an event shows in order, unless what an
// edit added is still there.
func (l *ledger) settleUnlessRaced(owner Owner, key ObjectKey) {
	l.mu.Lock()
	raced := l.causes[owner] != nil && l.causes[owner].Objects[key].Before != nil
	l.mu.Unlock()
	if !raced {
		l.settle(owner, key)
	}
}

// take hands the causes of an owner over.
func (l *ledger) take(owner Owner) Causes {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.causes[owner]
	delete(l.causes, owner)
	if c == nil {
		return Causes{}
	}
	return *c
}

// giveBack returns causes that were not dealt with. Newer ones stay.
func (l *ledger) giveBack(owner Owner, back Causes) {
	if back.Empty() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.ofLocked(owner)
	c.All = c.All || back.All
	c.Gone = c.Gone || back.Gone
	c.Health = c.Health || back.Health
	for key, cause := range back.Objects {
		if newer, known := c.Objects[key]; known {
			newer.Since = cause.Since
			cause = newer
		}
		if cause.Found != nil && !cause.held {
			if cause.held = l.held.hold(cause.Found); !cause.held {
				cause.Found, cause.Unsure = nil, true // the owner reads it again
			}
		}
		c.Objects[key] = cause
	}
}

func (l *ledger) ofLocked(owner Owner) *Causes {
	c := l.causes[owner]
	if c == nil {
		c = &Causes{Objects: map[ObjectKey]Cause{}}
		l.causes[owner] = c
	}
	return c
}
