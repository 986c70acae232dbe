// Package reconcile applies the objects of VidraResources, and reports the result in their statuses.
//
// One reconcile is one visible sequence, in [Reconciler.Reconcile] and pass.run:
//
//	get -> decide the scope -> connect -> read -> load -> watch -> select objects -> backstop ->
//	hold contended objects -> plan -> suspend -> preflight -> write ahead -> apply -> prune ->
//	wait until observed -> conclude
//
// The packages below it do the single steps; see docs/architecture.md. An edit of a managed object
// reaches it through package trigger as a cause that names the object. The plan is then that object
// alone, and the apply one PATCH, or two for a structural edit.
//
// Invariants: an object is in the inventory of the status before it is created, and until it is known to be gone. Vidra
// removes only objects that the VidraResource owns at that moment. An object that existed before is changed only if spec.adopt
// allows it. The status is written on transitions. A reconcile that finds all objects as expected sends no request, except for
// the backstop, and for unwatched objects. Failures are retried after a backoff.
package reconcile
