package apply

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

const (
	// lastScope is how much of an edit is undone at last. More is undone only if the API server calls the object invalid.
	lastScope = ownership.SinceApply
	// maxUndos is how often the requests are sent that undo an edit, while the object is written to between them.
	maxUndos = 8
	// maxReclaims is how often it is tried to change managedFields of an object that is written
	// to at the same time. A controller often writes once after an edit.
	maxReclaims = 2
)

// undoing is the state of an edit that is being undone, and of additions that are being
// removed.
//
// Each attempt reclaims what was added, which moves its ownership to the manager of the VidraResource, and then applies,
// which removes it. An operator that ends between the two finds the object differing from what it expects, and applies.
//
// Where the object is written to meanwhile, the apply is sent all the same: it reverts what it can, and its answer is the
// object of the next attempt. What the user who made the edit adds meanwhile is a part of the edit.
type undoing struct {
	edit ownership.Undo
	// found is the object as the edit left it.
	found *unstructured.Unstructured
	// attempts counts the attempts, and reclaims the reclaims of the last one.
	attempts, reclaims int
	// addition is what is being reclaimed, and cleaned what users added and what is removed.
	addition, cleaned ownership.Addition
	// reclaimed reports that the last attempt has reclaimed all that there is to reclaim.
	reclaimed bool
	// previous is the object before the last attempt; unclaimed is the object before anything
	// was reclaimed that no apply has removed, nil if nothing was.
	previous, unclaimed *unstructured.Unstructured
	// sent is the object as it was known when the last apply was sent; nil if none was.
	sent *unstructured.Unstructured
	// undone reports whether the last apply was accepted, and invalid is why it was not.
	undone  bool
	invalid error
}

// undoOf describes the edit that was found, in the scope BesideRemoved.
func (k known) undoOf() ownership.Undo {
	before, observed := k.beforeEdit()
	u := ownership.Undo{
		Manager: k.settings.Manager, Prefix: v1alpha1.FieldManagerPrefix, Configuration: k.Unstructured().Object,
		Keep: k.Exempts, Known: k.disclosureWith(), Unobserved: !observed,
	}
	if before != nil {
		u.Before, u.BeforeKnown = *before, true
	}
	return u
}

// removeDefaults follows an apply of a changed configuration that the API server calls invalid. Fields without an owner may be in the
// way, such as the defaults of a value that the manifest has changed. They are reclaimed and removed like additions, once a dry run has
// shown that the API server accepts the object without them.
func (r request) removeDefaults(refused error) request {
	r.kind, r.goal, r.err, r.refused = readUnowned, toUndo, nil, nil
	r.undoing = undoing{edit: r.undoOf(), invalid: refused}
	r.edit.Scope, r.edit.Refused = ownership.Defaults, object.FieldNames(refused)
	return r
}

// unownedRead follows the read of the object that may have defaults in the way.
func (r request) unownedRead(got answer) request {
	if got.err != nil || got.live == nil {
		return r.failed(r.invalid)
	}
	r.live, r.found = got.live, got.live
	if r.addition = r.edit.Added(r.found, r.live); len(r.addition.Patch) == 0 {
		return r.failed(r.invalid)
	}
	r.kind = tryWithoutUnowned
	return r
}

// triedWithoutUnowned follows the dry run of the apply without the defaults.
func (r request) triedWithoutUnowned(got answer) request {
	if got.err != nil {
		return r.failed(r.invalid)
	}
	return r.attempt()
}

// undoEdit returns the first request that undoes the edit.
func (r request) undoEdit() request {
	r.goal, r.edit, r.found = toUndo, r.undoOf(), r.Cause.Found
	r.Cause.Before = r.before // for another reconcile
	r.before, _ = r.beforeEdit()
	return r.attempt()
}

// attempt returns the first request of another attempt.
func (r request) attempt() request {
	if r.attempts++; r.attempts > maxUndos {
		return r.giveUp(fmt.Errorf("it was changed each of the %d times that the changes were reverted; it is tried again", maxUndos))
	}
	r.previous, r.reclaims = r.live, 0
	return r.reclaim(r.live)
}

// attemptOn returns another attempt on the object of an answer.
func (r request) attemptOn(got answer) request {
	if got.err != nil {
		return r.abandon(got.err)
	}
	r.live = got.live
	return r.attempt()
}

// reclaim returns the reclaim of what is still there of the additions.
func (r request) reclaim(live *unstructured.Unstructured) request {
	r.addition = r.edit.Added(r.found, live)
	if len(r.addition.Patch) == 0 {
		return r.reclaimEnded(nil, true)
	}
	r.kind = reclaim
	r.reclaims++
	return r
}

func (r request) reclaimAnswered(got answer) request {
	switch {
	case got.err == nil:
		return r.reclaimEnded(got.live, true)
	case object.Denied(got.err), !apierrors.IsInvalid(got.err) && !apierrors.IsConflict(got.err):
		return r.abandon(fmt.Errorf("reclaim what was added: %w", got.err))
	case r.reclaims == maxReclaims:
		return r.reclaimEnded(nil, false)
	case got.freshErr != nil:
		return r.abandon(got.freshErr)
	case got.fresh == nil: // its deletion is another event
		r.addition = ownership.Addition{}
		return r.reclaimEnded(nil, true)
	}
	return r.reclaim(got.fresh)
}

// reclaimEnded follows the reclaim. taken is the object after it; nil if there was nothing to
// take, or if it was not taken, because others write to the object again and again.
func (r request) reclaimEnded(taken *unstructured.Unstructured, reclaimed bool) request {
	if r.reclaimed = reclaimed; r.goal == toClean {
		return r.additionsReclaimed(taken)
	}
	if reclaimed && r.edit.Scope != ownership.Defaults { // a default is no part of an edit
		r.added = r.added.And(r.addition)
	}
	switch {
	case taken != nil:
		if r.live = taken; r.unclaimed == nil {
			r.unclaimed = r.previous
		}
	case reclaimed && r.undone:
		return r.accepted(r.live) // others added the rest: their events show whether with an edit
	case reclaimed && r.invalid != nil:
		if r.edit.Scope++; r.edit.Scope > lastScope {
			return r.giveUp(r.invalid)
		}
		return r.attempt()
	}
	r.sent = r.live
	return r.apply()
}

// undoAnswered follows the apply of an attempt.
func (r request) undoAnswered(got answer) request {
	switch {
	case got.err == nil && r.reclaimed && r.raced(ownership.Others(got.live, v1alpha1.FieldManagerPrefix)) == nil:
		return r.accepted(got.live)
	case got.err == nil:
		r.live, r.unclaimed, r.undone, r.invalid = got.live, nil, true, nil
		r.edit.Editors = r.edit.EditorsOf(r.found)
		return r.attempt()
	case !apierrors.IsInvalid(got.err) && !object.Denied(got.err):
		return r.abandon(got.err)
	case object.Denied(got.err):
		return r.giveUp(got.err)
	case r.reclaimed && r.undone:
		return r.give(r.previous)
	}
	r.invalid = got.err
	if !r.reclaimed { // the answer to an apply would have been the object of the next attempt
		r.kind, r.undone = read, false
		return r
	}
	if r.edit.Scope++; r.edit.Scope > lastScope {
		return r.giveUp(r.invalid)
	}
	if ownership.Recorded(r.live) {
		return r.attempt()
	}
	// managedFields were cleared. After this apply the API server records which fields the object
	// has, without which it is not known how to take one of them.
	r.kind = applyMarks
	return r
}

// raced returns what others owned before the edits that were undone, if they own something
// after the apply that they owned neither then nor when it was sent; nil otherwise.
func (r request) raced(others ownership.Paths) *ownership.Paths {
	if r.sent == nil || r.before == nil {
		return nil
	}
	added := others.Minus(*r.before)
	if added == "" || added.Minus(ownership.Others(r.sent, v1alpha1.FieldManagerPrefix)) == "" {
		return nil
	}
	return r.before
}

// reread follows the read of an object that others write to.
func (r request) reread(got answer) request {
	if got.err == nil && got.live == nil {
		return r.failed(r.invalid) // its deletion is another event
	}
	return r.attemptOn(got)
}

// abandon ends the task with the error of a request. What was reclaimed is returned if the API server refused the request. If it did
// not answer, it may have executed it: then the next apply finishes the undo, and so does that of an operator which starts.
func (r request) abandon(err error) request {
	if apierrors.IsNotFound(err) || object.Unanswered(err) && !object.Denied(err) {
		return r.failed(err)
	}
	return r.giveUp(err)
}

// giveUp ends the task with an error after it returned what was reclaimed, so that a later
// heal finds the whole edit.
func (r request) giveUp(err error) request {
	if r.unclaimed == nil {
		return r.failed(err)
	}
	r.refused = err
	return r.give(r.unclaimed)
}

// give returns to other managers what was reclaimed since previous, because the API server
// calls the object without that invalid.
func (r request) give(previous *unstructured.Unstructured) request {
	r.kind, r.previous = returnReclaimed, previous
	return r
}

func (r request) givenBack(got answer) request {
	if got.err != nil {
		got.err = fmt.Errorf("return what was reclaimed: %w", got.err)
	}
	switch {
	case r.refused != nil:
		return r.failed(errors.Join(r.refused, got.err))
	case got.err != nil:
		return r.failed(got.err)
	case r.goal == toUndo:
		return r.accepted(got.live)
	}
	r.live = got.live
	return r.finish()
}
