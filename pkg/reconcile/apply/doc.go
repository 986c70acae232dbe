// Package apply sends the requests about one object: apply, undo, adopt, release, recreate, compare.
//
// An object's way is straight, in [Applier.Apply]: gather what is known, decide the first request, send it,
// decide the next one from the answer, until the task ends, and record the result. Deciding is pure, and only
// send.go sends.
//
// Invariants: a heal of a changed value is one PATCH and no read; fields are never taken from another
// VidraResource; an object is deleted only as the one that was read.
package apply
