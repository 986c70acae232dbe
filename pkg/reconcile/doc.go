// Package reconcile makes the objects of a VidraResource be as its manifest
// says, and reports what became of them.
//
// One pass is one visible sequence, in [Reconciler.Reconcile] and pass.run:
//
//	get -> decide the scope -> connect -> read -> load -> watch -> select objects -> backstop -> plan ->
//	suspend -> preflight -> write ahead -> apply -> prune -> wait until observed -> conclude (health,
//	status, events)
//
// All that is known of a VidraResource between two reconciles is its ownerState, with one
// objectState for each object. When it is reconciled again, and why, is its schedule.
//
// An edit of a managed object reaches it through package trigger as a cause
// that names the object; the plan is then that object alone, and the apply one
// PATCH. Where the policy leaves drift alone, the object is compared instead, with
// a dry run. Deciding (plan, ignore rules, summarize, events.Transitions) is pure;
// doing is thin.
//
// Invariants: an object is in the inventory of the status before it is created
// and until it is known to be gone; nothing is removed that this VidraResource
// does not own at that moment, and nothing that existed without it is changed,
// unless spec.adopt says so; the status is written on transitions, not on every
// pass; a pass that finds everything in order sends no request but for the hourly
// backstop; what fails is retried when its time has come, not whenever something
// else happens.
package reconcile
