// Package trigger turns the events of watches into work for the owners of the objects. It
// decides whether an event means that an owned field was changed, adds a cause, and enqueues
// the object with its owner.
//
//	informer -> Factory.TransformFor: a Snapshot (snapshot.go) with its Health (health.go)
//	         -> Factory.HandlerFor: an observation (factory.go)
//	         -> Index.judge: a Verdict for each owner (factory.go, claim.go)
//	         -> Factory.act: a pending Cause (causes.go), and the object in the queue of the loop of objects,
//	            or its owner in the queue of reconciles (queue.go)
//
// The [Index] holds the owners of every managed object and the digest that each owner expects
// (see package ownership). The reconciler sets the expectations. The handlers of [Factory.HandlerFor]
// judge events by them, and note facts of events: the fields of other managers before an edit,
// deferred events, the version of an expected object, and sensitive values. An event that arrives
// during an apply of its object is judged after the apply returned, so that the echo of the apply and
// an edit are distinguished.
//
// The reconciler marks contended objects ([Factory.Contend]). Their drift is queued after other
// drift, when its revert is due.
//
// The same events carry the [Health] of an object. A change of health is no verdict: it enqueues
// the owners as routine work, once for a burst of changes.
//
// Invariants: the package never writes to a cluster and sends no request; a verdict is a pure function of a claim and an
// observation; no event is suppressed because of its time; beyond the maximum number of causes the owner reconciles all its
// objects; the snapshot of an object and its entry in the Index, together at most 512 bytes, do not grow with the object,
// except for the message of an object that is not Current, of at most 256 bytes.
package trigger
