package apply

import (
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
)

// decide returns the first request of a task, or how the task ends.
func decide(k known) request {
	r := request{known: k, as: k.Why, live: k.Cause.Found}
	switch found := k.Cause.Found; {
	case k.completed:
		r.kind = completed
	case k.asExpected:
		r.kind = asIntended
	case found != nil && found.GetDeletionTimestamp() != nil && !k.Cause.Deleted: // its watch shows its end
		r.kind = beingDeleted
	case k.Skip != nil && (found == nil || k.Skip.Silent):
		return r.observedAs(nil)
	case k.Skip != nil:
		r.kind = observe
	case k.settings.Additions.Policy == v1alpha1.AdditionsWarn && k.onlyAdditions():
		r.kind = unchanged
	case k.unmet(), k.Cause.Deleted && k.Why != plan.WhyNew:
		r.kind = create
	default:
		return r.change()
	}
	return r
}

// next returns the request that follows the answer to another one.
func next(r request, got answer) request {
	if r.unsure(got) {
		r.kind, r.unanswered, r.lost = confirm, r.kind, &got
		return r
	}
	if unserved := object.UnservedVersion(got.err); unserved != "" && unserved != r.unserved && r.kind != convert {
		r.kind, r.converting, r.unserved = convert, r.kind, unserved
		return r
	}
	switch r.kind {
	case observe:
		return r.compared(got)
	case convert:
		r.kind = r.converting
		if got.err != nil {
			return next(r, answer{err: fmt.Errorf("record the owners of its fields in the version %s: %w", r.GVK.GroupVersion(), got.err)})
		}
		return r
	case create:
		return r.created(got)
	case reclaim:
		return r.reclaimAnswered(got)
	case releaseIgnored:
		return r.released(got)
	case apply:
		return r.applyAnswered(got)
	case replaceLists:
		if got.err != nil {
			return r.goalAnswered(got)
		}
		// An error names the first list of each list item alone.
		r.kind, r.repairs = apply, r.repairs+1
		r.listsReplaced = !got.repaired || r.repairs == maxRepairs
		return r
	case askOwners:
		return r.ownersKnown(got)
	case claim:
		return r.goalAnswered(answer{err: errors.Join(r.refused, got.err)})
	case recheck:
		return r.rechecked(got)
	case read:
		return r.reread(got)
	case readUnowned:
		return r.unownedRead(got)
	case tryWithoutUnowned:
		return r.triedWithoutUnowned(got)
	case returnReclaimed:
		return r.givenBack(got)
	case applyMarks:
		return r.attemptOn(got)
	case migrate:
		return r.migrated(got)
	case dropStale:
		return r.staleDropped(got)
	case probe:
		return r.probed(got)
	case readReplaced:
		return r.replacement(got)
	case confirm:
		return r.confirmed(got)
	case asIntended, beingDeleted, unchanged, observed, applied, replaced, completed, failed:
	}
	return r
}

// change returns the first request that changes the object, which exists unless it is new.
func (r request) change() request {
	r.live = r.Cause.Found
	switch {
	case r.Why == plan.WhyChanged && r.hasStaleOwners():
		// A field of theirs would stay in the object if the manifest has dropped it.
		r.kind = dropStale
		return r
	case r.settings.Additions.Policy == v1alpha1.AdditionsRevert && r.onlyAdditions():
		return r.accepted(r.live)
	case r.edited(r.live):
		return r.undoEdit()
	}
	return r.apply()
}

// hasStaleOwners reports whether owners that state no lasting wish own fields that we applied.
func (r request) hasStaleOwners() bool {
	if r.live == nil {
		return false
	}
	_, stale := ownership.WithoutStaleOwners(r.live, r.settings.Manager, r.settings.Tools)
	return stale
}

// edited reports whether an object holds an edit that is to be undone.
func (r request) edited(found *unstructured.Unstructured) bool {
	if r.as == plan.WhyNew || found == nil {
		return false
	}
	return r.as == plan.WhyDrift || r.expectedKnown && !asExpected(found, r.expected)
}

// created follows a create. An object that lost the label by which it is watched looks deleted, too:
// then the answer has what is there. Whether a new object is there is read when its create has failed.
func (r request) created(got answer) request {
	switch {
	case got.err == nil && r.Ignored != nil:
		return r.releaseAfter(got.live)
	case got.err == nil:
		return r.accepted(got.live)
	case r.unmet(), !apierrors.IsConflict(got.err) && !object.Unmergeable(got.err):
		return r.failed(got.err)
	case got.freshErr != nil:
		return r.failed(got.freshErr)
	}
	r.Cause.Found = got.fresh
	return r.change()
}

// apply returns the apply of r.live, after the release of the fields that ignore rules name.
func (r request) apply() request {
	r.kind, r.force, r.repairs, r.listsReplaced, r.reduced = apply, false, 0, false, nil
	r.exact = r.as == plan.WhyNew && r.live != nil
	if r.Ignored != nil && (r.live != nil || r.base != nil) {
		r.kind = releaseIgnored
	}
	return r
}

// releaseAfter returns the release of fields after the whole configuration was applied.
func (r request) releaseAfter(live *unstructured.Unstructured) request {
	r.kind, r.live, r.whole = releaseIgnored, live, true
	return r
}

func (r request) released(got answer) request {
	switch {
	case got.err != nil && r.whole:
		return r.failed(got.err)
	case got.err != nil:
		return r.goalAnswered(got)
	case r.whole:
		return r.accepted(got.live)
	}
	r.kind, r.reduced = apply, got.reduced
	return r
}

func (r request) applyAnswered(got answer) request {
	switch {
	case object.Unmergeable(got.err) && r.as != plan.WhyNew && !r.listsReplaced:
		r.kind, r.unreadable = replaceLists, got.err
	case r.exact && apierrors.IsConflict(got.err) && len(owners.FieldConflictsIn(got.err)) == 0:
		r.kind, r.refused = recheck, got.err
	case !got.forced && apierrors.IsConflict(got.err):
		r.kind, r.refused = askOwners, got.err
	default:
		return r.goalAnswered(got)
	}
	return r
}

// rechecked follows the read of an object that changed since it was read.
func (r request) rechecked(got answer) request {
	r.rechecks++
	switch rival := new(owners.Conflict); {
	case errors.As(got.err, &rival) && (r.live == nil || !r.settings.Applied(r.live)):
		r.kind, r.refused = claim, got.err
		return r
	case got.err != nil:
		return r.goalAnswered(got)
	case got.live == nil, r.rechecks > maxRechecks: // it is gone, or others write it without end
		return r.goalAnswered(answer{err: r.refused})
	}
	r.live, r.Cause.Found = got.live, got.live
	if r.as == plan.WhyNew {
		return r.change()
	}
	r.kind, r.force = apply, false
	return r
}

// ownersKnown follows a conflict with other field managers. Fields are taken from them unless
// they are other VidraResources: two of them would take the field from each other without end. Where there are other
// VidraResources, the fields are taken from the object about which the decision was made: after another write, the decision is made again.
func (r request) ownersKnown(got answer) request {
	if got.err != nil {
		return r.goalAnswered(got)
	}
	refused := r.refused
	if got.live != nil { // otherwise it is gone, and is tried again
		refused = r.ownershipConflict(got.live, got.others)
	}
	r.refused = refused
	switch {
	case refused == nil && (r.exact || r.as == plan.WhyDrift || r.as == plan.WhyChanged && len(got.others) == 0):
		r.kind, r.force = apply, true
	case refused == nil && r.as == plan.WhyNew: // another client may have created it
		r.kind = recheck
	case refused == nil:
		r.kind, r.live, r.exact = apply, got.live, true
	case r.as == plan.WhyNew && r.live != nil && !slices.Contains(ownership.Managers(r.live, r.settings.Manager), r.settings.Manager):
		r.kind = claim
	default:
		return r.goalAnswered(answer{err: refused})
	}
	return r
}

// goalAnswered follows the last answer to an apply.
func (r request) goalAnswered(got answer) request {
	switch r.goal {
	case toUndo:
		return r.undoAnswered(got)
	case toClean:
		return r.cleanAnswered(got)
	case toApply:
	}
	switch {
	case got.err != nil:
		return r.failed(got.err)
	case r.Ignored != nil && r.live == nil && r.base == nil:
		return r.releaseAfter(got.live)
	}
	return r.accepted(got.live)
}

// accepted follows the apply that brought the object to what the manifest specifies.
func (r request) accepted(live *unstructured.Unstructured) request {
	if r.live = live; r.settings.Additions.Policy == v1alpha1.AdditionsRevert {
		return r.removeAdditions()
	}
	return r.finish()
}

// finish returns what is done about an object that has no field of another value than the
// manifest has.
func (r request) finish() request {
	if r.Why == plan.WhyNew && r.settings.LeftByFirstOperator(r.live) {
		r.kind = migrate
		return r
	}
	return r.end()
}

// staleDropped follows the removal of owners of our fields that state no lasting wish.
func (r request) staleDropped(got answer) request {
	if got.err != nil {
		return r.failed(fmt.Errorf("remove other owners of the applied fields from metadata.managedFields: %w", got.err))
	}
	r.Cause.Found = got.live
	return r.change()
}

func (r request) migrated(got answer) request {
	if got.err != nil {
		return r.failed(fmt.Errorf("release the fields of the first operator: %w", got.err))
	}
	r.live = got.live
	return r.end()
}

func (r request) end() request {
	if missing := r.settings.Signature().MissingLabel(r.live); missing != "" {
		return r.failed(object.AsLasting(fmt.Errorf("the API server took it without its label %s, by which it is watched: look for a mutating webhook that removes the label", missing)))
	}
	r.kind = applied
	return r
}

// failed ends the task with an error, unless the API server may accept the object as a new
// one.
func (r request) failed(err error) request {
	r.kind, r.err, r.live = failed, err, nil
	switch {
	case !apierrors.IsInvalid(err) || object.Denied(err) || r.Why == plan.WhyNew && r.Cause.Found == nil:
		return r
	case r.Why != plan.WhyDrift && r.edit.Scope != ownership.Defaults:
		return r.removeDefaults(err)
	}
	return r.refuse()
}

// unsure reports whether the API server may have reverted an edit without an answer. That is read at once, and reported: a
// later edit of the object would hide it.
func (r request) unsure(got answer) bool {
	return (r.kind == create || r.kind == apply) && r.Why == plan.WhyDrift && r.goal != toClean && r.lost == nil &&
		r.expectedKnown && got.err != nil && object.Unanswered(got.err) && !object.Denied(got.err) && !object.Unmergeable(got.err)
}

func (r request) confirmed(got answer) request {
	if got.err != nil || got.live == nil || !asExpected(got.live, r.expected) || r.goal == toUndo && len(r.edit.Added(r.found, got.live).Patch) > 0 {
		r.kind = r.unanswered
		return next(r, *r.lost)
	}
	r.live = got.live
	return r.end()
}

// ownershipConflict returns an owners.Conflict if the apply was refused for a field that another
// VidraResource owns. A field manager of another installation counts, too, unless an edit is reverted
// or spec.adopt is Always: any user who may edit the object can apply it under such a name. others are
// the other owners of the object.
func (r request) ownershipConflict(live *unstructured.Unstructured, others []owners.CoOwner) error {
	var elsewhere []owners.CoOwner
	if r.settings.Adopt != v1alpha1.AdoptAlways && !r.edited(live) {
		elsewhere = r.settings.OwnersElsewhere(r.Key, live, others)
	}
	return owners.Contested(r.refused, live, r.Unstructured(), others, elsewhere, r.as == plan.WhyDrift)
}
