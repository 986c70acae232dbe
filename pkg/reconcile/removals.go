package reconcile

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/internal/display"
)

// pruneAll removes objects, stage by stage, those of a stage in parallel.
func (a *remover) pruneAll(ctx context.Context, ids []identity) {
	if len(ids) == 0 { // as in nearly every pass
		return
	}
	a.spared = a.spare(ctx, ids)
	defer a.endRemoval(ids)
	eachStage(ids, identity.stage, func(stage []identity) {
		removals := make([]removal, len(stage))
		a.parallel(len(stage), func(i int) {
			if entry := a.plan.state.objects[stage[i]].entry; a.stillThere(ctx, entry) {
				removals[i] = removal{deleted: true}
			} else {
				removals[i] = a.remove(ctx, entry)
			}
		})
		a.recordStage(ctx, stage, removals)
	})
}

// stillThere reports whether an object whose deletion was accepted is seen by its
// watch, which saves asking for it. It is asked for when it is time to retry.
func (a *remover) stillThere(ctx context.Context, entry *v1alpha1.ManagedResourceStatus) bool {
	if entry.State != v1alpha1.ObjectDeleting || a.plan.scope.retry || !a.watched {
		return false
	}
	mapping, err := a.destination.Mapping(ctx, gvkOf(entry))
	if err != nil {
		return false
	}
	_, found, synced := a.plan.Watches.Get(a.watchOf(mapping), entry.Namespace, entry.Name)
	return found && synced
}

// recordRemoval notes what came of a removal. An object stays in the inventory
// until it is gone.
func (a *remover) recordRemoval(ctx context.Context, o *objectState, done removal) {
	entry := o.entry
	change := events.Change{Object: referenceTo(o.id, gvkOf(entry), "")}
	a.plan.noteAnswer(o, done.glass)
	if !done.missing {
		o.kindGoneSince = time.Time{}
	}
	switch {
	case done.missing && !a.missingForGood(o):
		// An API server that has just started serves some kinds a little later.
		o.fail(v1alpha1.ReasonProgressing, "is being removed, but its kind is not served at present")
		return
	case apierrors.IsForbidden(done.err) && a.namespaceIsGone(ctx, o.id.namespace):
		// The rights of an account in it went along, and so did the object.
	case done.held != "":
		if exempts(done.glass.answer, a.plan.now) && (a.plan.heldUntil.IsZero() || done.glass.answer.Until.Time.Before(a.plan.heldUntil)) {
			a.plan.heldUntil = done.glass.answer.Until.Time
		}
		o.fail(v1alpha1.ReasonProgressing, done.held)
		return
	case done.err != nil:
		if entry.State != v1alpha1.ObjectDeleting { // which it goes on doing
			entry.State = v1alpha1.ObjectFailed
		}
		a.refused(o, done.err, done.key, "get", "patch", "delete")
		o.fail(v1alpha1.ReasonPruneFailed, "cannot be removed: "+message(done.err, done.sensitive))
		return
	case done.deleted:
		switch {
		case done.waitsFor != "":
			o.fail(v1alpha1.ReasonProgressing, "is being deleted, and waits for "+display.Truncate(done.waitsFor, maxMessage))
		case entry.State != v1alpha1.ObjectDeleting, o.problem == nil: // otherwise nobody asked again
			o.fail(v1alpha1.ReasonProgressing, "is being deleted")
		}
		entry.State = v1alpha1.ObjectDeleting
		return
	}
	switch {
	case done.unmanaged:
		change.Action = events.Orphaned
	case done.released:
		change.Action = events.Released
	case entry.State == v1alpha1.ObjectDeleting, a.plan.first && done.absent && entry.UID != "": // a Vidra before this one may have deleted it
		change.Action = events.Pruned
	}
	if change.Action != "" {
		a.plan.state.pendingEvents = append(a.plan.state.pendingEvents, change)
	}
	o.entry, o.problem, o.kindGoneSince = nil, nil, time.Time{}
}

// missingForGood reports whether the kind of an object has not been served for so
// long that the object is gone with it.
func (a *remover) missingForGood(o *objectState) bool {
	if o.kindGoneSince.IsZero() {
		o.kindGoneSince = a.plan.now
		return false
	}
	return a.plan.now.Sub(o.kindGoneSince) >= kindGoneTimeout
}
