// Package trigger turns the events of watches into work for the owners of the
// objects: it decides whether an event means that something which is ours was
// changed, notes the cause, and puts the owner into the work queue.
//
//	informer -> Factory.TransformFor: a Snapshot (snapshot.go) with its Health (health.go)
//	         -> Factory.HandlerFor: an observation (factory.go)
//	         -> Index.judge: a Verdict for each owner (index.go, claim.go)
//	         -> Factory.act: a pending Cause (causes.go), and the owner in the queue
//
// The [Index] knows for every managed object who owns it and which digest each
// owner expects (see package ownership). The reconciler writes it; the handlers
// that [Factory.HandlerFor] makes read it. An event that arrives while an apply
// of its object is in flight is judged after the apply has returned, so that
// neither our own echo nor a real edit is mistaken for the other.
//
// The reconciler notes which objects are contended ([Factory.Contend]): their drift is
// queued behind other drift, and not before its heal is due.
//
// How an object is doing, its [Health], comes with the same events. It is no verdict:
// the owners are told that it is another one, as routine work and once for a burst.
//
// Invariants: nothing here writes to a cluster or sends a request; a verdict is
// a pure function of a claim and an observation; no event is suppressed by the
// time at which it arrives; a cause that does not fit is not lost but degrades
// into a look at every object of its owner; what a watch keeps of an object and
// what the Index knows of it, in all at most 512 bytes, do not grow with the
// object, but for the message of one that is not Current, of at most 256 bytes.
package trigger
