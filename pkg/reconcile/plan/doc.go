// Package plan decides what one reconcile does and when the next one begins. It sends no request.
//
// [State] is all that is known of the objects of a VidraResource between two reconciles, with one [Object]
// for each. [DecideScope] and [Make] are pure functions of that, of the causes and of the clock. [Planner]
// changes the state, and notifies the trigger of what it expects.
package plan
