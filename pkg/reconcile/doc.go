// Package reconcile applies the objects of VidraResources, and reports the result in their statuses.
//
// The loop of objects, [Reconciler.Converge], reverts an edit of one object, with one PATCH, or two for a structural edit. It hands over
// to a reconcile of the VidraResource everything beyond a revert.
//
// One reconcile is one visible sequence, in [Reconciler.Reconcile] and pass.run:
//
//	get -> decide the scope -> connect -> read -> load -> watch -> select objects -> backstop ->
//	hold contended objects -> plan -> suspend -> preflight -> write ahead -> apply -> prune ->
//	wait until observed -> conclude
//
// The packages below it do the single steps; see docs/architecture.md.
//
// Invariants: an object is in the inventory of the status before it is created, and until it is known to be gone. Vidra
// removes only objects that the VidraResource owns at that moment. An object that existed before is changed only if spec.adopt
// allows it. The status is written on transitions. A reconcile that finds all objects as expected sends no request, except for
// the backstop, and for unwatched objects. Failures are retried after a backoff.
package reconcile
