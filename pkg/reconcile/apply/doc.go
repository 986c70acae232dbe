// Package apply sends the requests about one object: apply, undo, adopt, recreate, compare.
//
// Each task runs in [Applier.Apply]: gather the knowledge, run the procedure, and record the result. A procedure is sequential: its
// loops, conditions and calls stand in the order of their execution. It makes its calls through objectAPI, so that its tests give the
// answers. gather may read the object first, and delete.go has the only deletion.
//
//	run         an end without a call, observe, or converge
//	converge    create or change, then finish; withoutDefaults and replace follow a refusal
//	change      undo, or apply
//	undo        reclaim the additions of an edit and apply, until it is undone
//	apply       release ignored fields, send, and answer conflicts with other owners
//	finish      remove additions of users, and release the fields of the first operator
//
// Invariants: a heal of a changed value is one request, a PATCH. Further ones have these reasons: an unsure cause, an ignore rule, owner references
// or bindings in the manifest, a lost label of a shard, a PATCH that is refused or unanswered. Fields are never taken from another VidraResource
// of the installation. An object is deleted only in the version that was read.
package apply
