package trigger

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/vidra-operator/vidra/pkg/ownership"
)

// Cause is the reason to reconcile an object.
type Cause struct {
	// Deleted is whether the object was deleted or has lost the label of the watch.
	Deleted bool
	// Succeeded is whether the deleted object had ended successfully, and its controller removes it then.
	Succeeded bool
	// Found is the changed object. It is nil for a deleted object, and for one that the owner has to read (Unsure).
	Found *unstructured.Unstructured
	// Before are the paths that other managers owned in the object before the change; nil
	// if the Index has them. See Index.Before.
	Before *ownership.Paths
	// Unsure is whether the cause was inferred, from a relist or from the store of a watch. The
	// owner must read the object before it reports the change.
	Unsure bool
	// Since is when the first event was received that reported the object as changed. Newer
	// causes of the object keep it until an apply succeeds. Zero if no event reported the
	// change.
	Since time.Time
	// Unanswered is whether an apply for the cause got no answer. The API server may have executed
	// it, so even an object that is as expected may have a change to report.
	Unanswered bool

	// held is whether the memory of Found is counted.
	held bool
	// single marks a cause for the loop of objects. A reconcile of the owner takes the others.
	single bool
}

// Then returns the cause of an object after a later change. It is since the first one, and has the object as it is now: causes that were given back may
// have any order.
func (c Cause) Then(later Cause) Cause {
	if c.Unanswered && later.Unsure { // c has the state to be reported
		return c
	}
	if c.isNewerThan(later) {
		later.Found, later.held = c.Found, c.held
	}
	if later.Before == nil { // additions of the earlier edit are still there
		later.Before = c.Before
	}
	if !c.Since.IsZero() {
		later.Since = c.Since
	}
	return later
}

// isNewerThan reports whether the cause has a newer version of the object than another one.
func (c Cause) isNewerThan(other Cause) bool {
	if c.Found == nil || other.Found == nil || c.Found.GetUID() != other.Found.GetUID() {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(c.Found.GetResourceVersion(), other.Found.GetResourceVersion())
	return err == nil && order > 0
}

// Causes are the reasons for the next reconcile of an owner.
type Causes struct {
	// Objects are the changed objects. Only they have to be reconciled while All is false.
	Objects map[ObjectKey]Cause
	// All is whether every object of the owner has to be reconciled.
	All bool
	// Retry reports whether failures are retried without their backoff, because a thing that they lacked may be there now.
	Retry bool
	// Health is whether the health of an object changed, which does not require to compare
	// its fields; see CheckedHealthOf.
	Health bool
	// Others is whether the fields of other managers in an object changed, which the status records.
	Others bool
	// Report is whether heals changed the state of objects, which the status is still to show.
	Report bool
	// Suspects are the objects that a Listing did not show as expected, with the version that it
	// showed; empty for an object that it lacked.
	Suspects map[ObjectKey]string
}

// Empty reports whether there is no cause.
func (c Causes) Empty() bool {
	return len(c.Objects) == 0 && len(c.Suspects) == 0 && !c.All && !c.Retry && !c.Health && !c.Others && !c.Report
}

// maxCauses is the maximum number of causes of one owner. Beyond it the owner reconciles all its
// objects, which finds the same changes.
const maxCauses = 4096

// pendingCauses holds the causes of each owner until it takes them. It is safe for concurrent
// use.
type pendingCauses struct {
	// mu guards causes and contended.
	mu     sync.Mutex
	causes map[Owner]Causes
	// contended holds the contended objects of each owner, with the time before which their
	// causes need no reconcile.
	contended map[Owner]map[ObjectKey]time.Time
	// overflows counts the causes beyond maxCauses.
	overflows prometheus.Counter
	// held limits the memory of the objects in causes.
	held *heldObjects
}

func newPendingCauses(overflows prometheus.Counter, held *heldObjects) pendingCauses {
	return pendingCauses{causes: map[Owner]Causes{}, contended: map[Owner]map[ObjectKey]time.Time{}, overflows: overflows, held: held}
}

// add adds a cause. It replaces an older cause of the same object, because the newer state still
// shows the older drift. It reports whether the loop of objects takes the cause, which single permits: a
// reconcile of the owner that has an older cause of the object takes the newer one, too.
func (p *pendingCauses) add(owner Owner, key ObjectKey, cause Cause, single bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.causesLocked(owner)
	older, known := c.Objects[key]
	if !known && len(c.Objects) >= maxCauses {
		c.All = true
		p.causes[owner] = c
		p.overflows.Inc()
		return false
	}
	if known {
		cause = older.Then(cause)
	}
	cause.single = single && (!known || older.single)
	if cause.Since.IsZero() {
		cause.Since = time.Now()
	}
	c.Objects[key] = cause
	return cause.single
}

// drop removes the cause of an object that is as expected again.
func (p *pendingCauses) drop(owner Owner, key ObjectKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.causes[owner].Objects, key)
}

// keepRaced keeps the cause of an object that other managers changed during its apply, because their additions may still be
// there. before are the fields that other managers owned before.
func (p *pendingCauses) keepRaced(owner Owner, key ObjectKey, before *ownership.Paths) {
	p.mu.Lock()
	defer p.mu.Unlock()
	objects := p.causes[owner].Objects
	if cause, known := objects[key]; known && cause.Before == nil {
		cause.Before = before
		objects[key] = cause
	}
}

// dropSettled removes the cause of an object that an event shows as expected, unless additions of
// an edit may still be there, or an unanswered apply may have reverted it.
func (p *pendingCauses) dropSettled(owner Owner, key ObjectKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	objects := p.causes[owner].Objects
	if cause := objects[key]; cause.Before == nil && !cause.Unanswered {
		delete(objects, key)
	}
}

// take returns the causes of an owner and removes them, but for those that the loop of objects takes.
func (p *pendingCauses) take(owner Owner) Causes {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.causes[owner]
	delete(p.causes, owner)
	left := map[ObjectKey]Cause{}
	for key, cause := range c.Objects {
		if cause.single {
			left[key] = cause
			delete(c.Objects, key)
		}
	}
	if len(left) > 0 {
		p.causes[owner] = Causes{Objects: left}
	}
	return c
}

// takeObjects marks the causes that single accepts for the loop of objects. It removes and returns the unmarked causes.
func (p *pendingCauses) takeObjects(owner Owner, single func(ObjectKey) bool) map[ObjectKey]Cause {
	p.mu.Lock()
	defer p.mu.Unlock()
	objects, taken := p.causes[owner].Objects, map[ObjectKey]Cause{}
	for key, cause := range objects {
		if cause.single = cause.single || single(key); cause.single {
			objects[key] = cause
			continue
		}
		taken[key] = cause
		delete(objects, key)
	}
	return taken
}

// hasObjects reports whether an owner has causes of objects.
func (p *pendingCauses) hasObjects(owner Owner) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.causes[owner].Objects) > 0
}

// removeAll removes all causes of an owner.
func (p *pendingCauses) removeAll(owner Owner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.causes, owner)
}

// merge adds causes that are not about one event of an object, or that the owner took and left
// unsettled. Newer causes of the same objects are kept.
func (p *pendingCauses) merge(owner Owner, back Causes) {
	if back.Empty() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.causesLocked(owner)
	c.All = c.All || back.All
	c.Retry = c.Retry || back.Retry
	c.Health = c.Health || back.Health
	c.Others = c.Others || back.Others
	c.Report = c.Report || back.Report
	for key, version := range back.Suspects {
		if c.Suspects == nil {
			c.Suspects = map[ObjectKey]string{}
		}
		c.Suspects[key] = version
	}
	for key, cause := range back.Objects {
		if newer, known := c.Objects[key]; known {
			single := newer.single && cause.single
			cause = cause.Then(newer)
			cause.single = single
		}
		if cause.Found != nil && !cause.held {
			if cause.held = p.held.hold(cause.Found); !cause.held {
				cause.Found, cause.Unsure = nil, true // the owner reads it again
			}
		}
		c.Objects[key] = cause
	}
	p.causes[owner] = c
}

// causesLocked returns the causes of an owner, whose objects it makes if absent.
func (p *pendingCauses) causesLocked(owner Owner) Causes {
	c, known := p.causes[owner]
	if !known {
		c.Objects = map[ObjectKey]Cause{}
		p.causes[owner] = c
	}
	return c
}
