package reconcile

import (
	"slices"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// why says why an object is applied.
type why int

const (
	// whyNew: the object was never applied by this VidraResource.
	whyNew why = iota
	// whyChanged: the manifest has changed, or may have.
	whyChanged
	// whyRetry: the last apply failed.
	whyRetry
	// whyDrift: another writer changed or deleted the object.
	whyDrift
)

// task is one object to be applied.
type task struct {
	*desired
	// known is what is known of the object. An applier only reads it.
	known *objectState
	why   why
	cause trigger.Cause
	// skip is why the object is not reverted; nil if it is.
	skip *skipReason
	// seen is what another writer was seen to change before, and what was not reverted.
	seen []ownership.Change
	// begun reports that an apply was sent before whose answer was not reported.
	begun bool
}

// entry is the inventory entry of the object; nil if it has none.
func (t task) entry() *v1alpha1.ManagedResourceStatus { return t.known.entry }

// planInput is what is known before a plan is made.
type planInput struct {
	// manifest are the objects of the manifest, in order, and others those that it does not have.
	manifest, others []*objectState
	unresolved       []unresolved
	// preconditions returns what stands in the way of an object.
	preconditions func(*objectState) preconditions
	// causes are the objects that are not as they should be.
	causes map[trigger.ObjectKey]trigger.Cause
	// all has every object considered; otherwise only causes are.
	all bool
}

// preconditions is what is known of an object of the manifest before a plan is made.
type preconditions struct {
	// changed reports that its applied configuration is, or may be, another one than
	// was applied last.
	changed bool
	// unobserved reports that no watch shows the object, as after a restart.
	unobserved bool
	// terminating reports that its namespace is being deleted.
	terminating bool
	// gone reports that the API server does not serve its kind at present.
	gone bool
	// held reports that it failed, and its time to be tried again has not come.
	held bool
	// contended reports that it is contended, and its next heal is not due.
	contended bool
	// skip is why it is not reverted; nil if it is.
	skip *skipReason
	// seen is what another writer was seen to change before, and what was not reverted.
	seen []ownership.Change
}

// plan is what a pass has to do.
type plan struct {
	apply []task
	// prune are the objects that left the manifest, last applied first.
	prune []identity
	// blocked are the objects whose kind is gone.
	blocked []*objectState
	// terminating are the objects whose namespace is being deleted.
	terminating []*objectState
	// held are the objects that have to wait.
	held []*objectState
}

// makePlan decides what to do. Objects stay in the order of the manifest.
func makePlan(in planInput) plan {
	var p plan
	for _, o := range in.manifest {
		d, entry := o.desired, o.entry
		cause, drifted := in.causes[d.key]
		if !in.all && !drifted {
			continue
		}
		is := in.preconditions(o)
		switch {
		case is.terminating:
			p.terminating = append(p.terminating, o)
		case is.gone:
			p.blocked = append(p.blocked, o)
		case is.held, drifted && is.contended && !is.changed:
			p.held = append(p.held, o)
		case entry == nil || entry.UID == "":
			p.apply = append(p.apply, task{desired: d, known: o, why: whyNew})
		case is.changed:
			// Neither a policy nor break-glass keeps a changed manifest back. An edit that no
			// watch has shown is reported, too, so the object is read first.
			cause.Unsure = cause.Unsure || cause.Found == nil && is.unobserved
			p.apply = append(p.apply, task{desired: d, known: o, why: whyChanged, cause: cause, seen: is.seen})
		case drifted:
			p.apply = append(p.apply, task{desired: d, known: o, why: whyDrift, cause: cause, skip: is.skip})
		case unfinished(entry.State):
			p.apply = append(p.apply, task{desired: d, known: o, why: whyRetry, cause: trigger.Cause{Unsure: true}, skip: is.skip})
		}
	}
	if in.all {
		p.prune = leftovers(in)
	}
	return p
}

// unfinished reports whether an object in a state has still to be applied. One that is
// being deleted left the manifest, and is back in it.
func unfinished(state v1alpha1.ObjectState) bool {
	return state == v1alpha1.ObjectPending || state == v1alpha1.ObjectFailed || state == v1alpha1.ObjectDeleting
}

// leftovers are the objects of the inventory that the manifest does not have.
// What waits for its kind is still in the manifest, under the namespace that it
// names there or under the one that it was given.
func leftovers(in planInput) []identity {
	var gone []identity
	for _, o := range in.others {
		if o.entry != nil && !slices.ContainsFunc(in.unresolved, func(u unresolved) bool { return u.is(o.id) }) {
			gone = append(gone, o.id)
		}
	}
	slices.SortFunc(gone, compareForRemoval)
	return gone
}
