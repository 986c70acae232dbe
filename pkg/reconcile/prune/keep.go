package prune

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/breakglass"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/policy"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// exclusions are the objects that a removal of objects must not delete. They are written between the stages of the removal
// only, and read within each by many.
type exclusions struct {
	members policy.Members
	// wanted holds the UIDs of the objects of the manifest: the API server may serve one object in several groups.
	wanted map[types.UID]bool
	// stayed are the objects of the removal that were left in place.
	stayed map[object.Identity]stayed
}

// stayed is an object that was left in place.
type stayed struct {
	entry *v1alpha1.ManagedResourceStatus
	key   trigger.ObjectKey
}

// readAsVidra reads, as Vidra itself, an object that is forbidden to the account of the
// VidraResource; nil if it is absent.
func (a *Remover) readAsVidra(ctx context.Context, key trigger.ObjectKey) (live *unstructured.Unstructured, known bool) {
	if a.Applier.User == "" {
		return nil, false
	}
	live, err := access.GetAsVidra(ctx, a.Applier.Destination, key)
	return live, err == nil
}

// removeUnread returns the outcome for an object that is forbidden to the account of the VidraResource; refusal is the error of its read. An object
// that is absent, or foreign, needs no removal. The outcome is the same for both, so that it conceals which
// objects exist.
func (a *Remover) removeUnread(ctx context.Context, key trigger.ObjectKey, e *v1alpha1.ManagedResourceStatus, refusal error) removal {
	done := failure(refusal)
	switch live, known := a.readAsVidra(ctx, key); {
	case !known:
	case live == nil, !a.Applier.Settings.Claimant.Owns(live, e):
		return removal{end: notOurs}
	default:
		about := a.departure(key, live, e)
		decision, err := policy.Decide(ctx, about.of, about)
		if done.kept = policy.KeptByAnnotation(live); err == nil && decision.Removes() {
			done.end = deletionFailed
		}
	}
	return done
}

// exempts reports whether break-glass exempts an object of the manifest from a removal with its container.
func (a *Remover) exempts(e *v1alpha1.ManagedResourceStatus, d *desired.Object, live *unstructured.Unstructured) bool {
	return breakglass.Exempts(a.Applier.Settings.AnswerTo(e, d, live).Status, a.Plan.Now)
}

// exclude returns the exclusions of a removal of objects. It reads the objects of the manifest
// that would be deleted with one of them.
func (a *Remover) exclude(ctx context.Context, removed []object.Identity) *exclusions {
	s := a.Plan.State
	excluded := &exclusions{wanted: map[types.UID]bool{}, stayed: map[object.Identity]stayed{}}
	containers := slices.DeleteFunc(slices.Clone(removed), func(id object.Identity) bool {
		return !id.IsContainer() || s.Objects.ByID[id].In(v1alpha1.ObjectDeleting)
	})
	var within []*plan.Object
	for _, o := range s.Objects.Manifest {
		if o.Entry != nil && o.Entry.UID != "" {
			excluded.wanted[types.UID(o.Entry.UID)] = true
		}
		if slices.ContainsFunc(containers, func(container object.Identity) bool { return policy.GoesWith(container, o.ID, o.Desired.Key) }) {
			within = append(within, o)
		}
	}
	kept, undecided, entries := make([]bool, len(within)), make([]bool, len(within)), make([]*v1alpha1.ManagedResourceStatus, len(within))
	for i, o := range within { // heals replace them
		entries[i] = o.Entry
	}
	a.Applier.Parallel(len(within), func(i int) {
		d := within[i].Desired
		switch live, err := a.Applier.Get(ctx, d.Key); {
		case err != nil && !object.KindGone(err):
			live, known := a.readAsVidra(ctx, d.Key)
			kept[i], undecided[i] = live != nil && policy.KeptByAnnotation(live), !known || live != nil && a.exempts(entries[i], d, live)
		case live != nil:
			kept[i], undecided[i] = policy.KeptByAnnotation(live), a.exempts(entries[i], d, live)
		}
	})
	for i, o := range within {
		excluded.members.Needed.Add(o.ID, o.Desired.Key)
		excluded.note(o.ID, o.Desired.Key, kept[i], undecided[i])
	}
	return excluded
}

// note notes the findings about an object.
func (s *exclusions) note(id object.Identity, key trigger.ObjectKey, kept, undecided bool) {
	if kept {
		s.members.Kept.Add(id, key)
	}
	if undecided {
		s.members.Undecided.Add(id, key)
	}
}

// recordStage notes the outcomes of the removals of a stage.
func (a *Remover) recordStage(ids []object.Identity, removals []removal) {
	s, excluded := a.Plan.State, a.exclusions
	for i, done := range removals {
		id, o := ids[i], s.Objects.ByID[ids[i]]
		entry, deleting := o.Entry, o.In(v1alpha1.ObjectDeleting) // it was checked before
		a.recordRemoval(o, done)
		if done.kept && done.end.ceased() {
			excluded.stayed[id] = stayed{entry, done.key}
		}
		excluded.note(id, done.key, done.kept, !deleting && done.end.undecided())
	}
}

// endRemoval ends the removal of objects. An object that was left in place stays in the inventory until its container is
// released, too: Vidra may stop before.
func (a *Remover) endRemoval(removed []object.Identity) {
	s, excluded := a.Plan.State, a.exclusions
	for id, kept := range excluded.stayed {
		for _, container := range removed {
			if s.Objects.ByID[container].Entry != nil && policy.GoesWith(container, id, kept.key) {
				s.Objects.Track(id).Entry = kept.entry
			}
		}
	}
	a.exclusions = nil
}
