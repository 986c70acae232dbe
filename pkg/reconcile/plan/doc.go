// Package plan decides about the work of one reconcile and the time of the next one. It sends no request.
//
// [State] is the knowledge about the objects of a VidraResource between two reconciles, with one [Object] for each.
// [DecideScope] and [Make] are pure functions of it, of the causes and of the clock. [Planner] changes the state, and notifies
// the trigger of its expectations.
package plan
