// Package apply sends the requests about one object: apply, undo, adopt, recreate, compare.
//
// Each task runs in [Applier.Apply]: gather what is known, decide the first request, send it,
// decide the next one from the answer, until the task ends, and record the result. Deciding is pure. send.go
// sends what it decides. In addition, gather.go may read the object first, and delete.go has the only deletion.
//
// Invariants: a heal of a changed value is one PATCH and no read, unless an ignore rule covers the
// object; fields are never taken from another
// VidraResource of the installation; an object is deleted only as the one that was read.
package apply
