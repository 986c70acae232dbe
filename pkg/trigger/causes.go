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

// pendingCauses keeps the causes of each owner until it takes them. It is safe for
// concurrent use.
type pendingCauses struct {
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

func newPendingCauses(overflows prometheus.Counter, held *heldObjects) pendingCauses {
	return pendingCauses{causes: map[Owner]*Causes{}, contended: map[Owner]map[ObjectKey]time.Time{}, overflows: overflows, held: held}
}

// add adds a cause; it replaces an older one of the same object, whose drift
// the newer state still shows.
func (p *pendingCauses) add(owner Owner, key ObjectKey, cause Cause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.causesLocked(owner)
	if cause.Before == nil { // what an edit before it added is still there
		cause.Before = c.Objects[key].Before
	}
	older, known := c.Objects[key]
	switch {
	case known:
		cause.Since = older.Since
	case len(c.Objects) >= maxCauses:
		c.All = true
		p.overflows.Inc()
		return
	default:
		cause.Since = time.Now()
	}
	c.Objects[key] = cause
}

// addAll has the owner look at all its objects.
func (p *pendingCauses) addAll(owner Owner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.causesLocked(owner).All = true
}

// addGone tells the owner that an object which was to be removed is gone.
func (p *pendingCauses) addGone(owner Owner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.causesLocked(owner).Gone = true
}

// addHealth tells the owner that the health of an object is another one.
func (p *pendingCauses) addHealth(owner Owner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.causesLocked(owner).Health = true
}

// drop drops the cause of an object that is in order again.
func (p *pendingCauses) drop(owner Owner, key ObjectKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.causes[owner]; c != nil {
		delete(c.Objects, key)
	}
}

// keepRaced keeps the cause of an object that was applied while users changed it: what they
// added since the object was found may be there still. before is what others owned before.
func (p *pendingCauses) keepRaced(owner Owner, key ObjectKey, before *ownership.Paths) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.causes[owner]; c != nil {
		if cause, known := c.Objects[key]; known && cause.Before == nil {
			cause.Before = before
			c.Objects[key] = cause
		}
	}
}

// dropUnlessRaced drops the cause of an object that an event shows in order, unless what an
// edit added is still there.
func (p *pendingCauses) dropUnlessRaced(owner Owner, key ObjectKey) {
	p.mu.Lock()
	raced := p.causes[owner] != nil && p.causes[owner].Objects[key].Before != nil
	p.mu.Unlock()
	if !raced {
		p.drop(owner, key)
	}
}

// take hands the causes of an owner over.
func (p *pendingCauses) take(owner Owner) Causes {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.causes[owner]
	delete(p.causes, owner)
	if c == nil {
		return Causes{}
	}
	return *c
}

// requeue returns causes that were not dealt with. Newer ones stay.
func (p *pendingCauses) requeue(owner Owner, back Causes) {
	if back.Empty() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.causesLocked(owner)
	c.All = c.All || back.All
	c.Gone = c.Gone || back.Gone
	c.Health = c.Health || back.Health
	for key, cause := range back.Objects {
		if newer, known := c.Objects[key]; known {
			newer.Since = cause.Since
			cause = newer
		}
		if cause.Found != nil && !cause.held {
			if cause.held = p.held.hold(cause.Found); !cause.held {
				cause.Found, cause.Unsure = nil, true // the owner reads it again
			}
		}
		c.Objects[key] = cause
	}
}

func (p *pendingCauses) causesLocked(owner Owner) *Causes {
	c := p.causes[owner]
	if c == nil {
		c = &Causes{Objects: map[ObjectKey]Cause{}}
		p.causes[owner] = c
	}
	return c
}
