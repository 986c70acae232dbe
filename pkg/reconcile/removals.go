package reconcile

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
)

// pruneAll removes objects, stage by stage, those of a stage in parallel.
func (p *pass) pruneAll(ctx context.Context, ids []identity) {
	if len(ids) == 0 { // as in nearly every pass
		return
	}
	p.applier.spared = p.spare(ctx, ids)
	defer p.endRemoval(ids)
	eachStage(ids, identity.stage, func(stage []identity) {
		removals := make([]removal, len(stage))
		p.parallel(len(stage), func(i int) {
			if entry := p.state.objects[stage[i]].entry; p.stillThere(ctx, entry) {
				removals[i] = removal{deleted: true}
			} else {
				removals[i] = p.applier.remove(ctx, entry)
			}
		})
		p.recordStage(ctx, stage, removals)
	})
}

// stillThere reports whether an object whose deletion was accepted is seen by its
// watch, which saves asking for it. It is asked for when it is time to retry.
func (p *pass) stillThere(ctx context.Context, entry *v1alpha1.ManagedResourceStatus) bool {
	if entry.State != v1alpha1.ObjectDeleting || p.scope.retry || !p.applier.watched {
		return false
	}
	mapping, err := p.applier.destination.Mapping(ctx, gvkOf(entry))
	if err != nil {
		return false
	}
	_, found, synced := p.Watches.Get(p.watchOf(mapping), entry.Namespace, entry.Name)
	return found && synced
}

// recordRemoval notes what came of a removal. An object stays in the inventory
// until it is gone.
func (p *pass) recordRemoval(ctx context.Context, o *objectState, done removal) {
	entry := o.entry
	change := events.Change{Object: referenceTo(o.id, gvkOf(entry), "")}
	p.noteAnswer(o, done.glass)
	if !done.missing {
		o.kindGoneSince = time.Time{}
	}
	switch {
	case done.missing && !p.missingForGood(o):
		// An API server that has just started serves some kinds a little later.
		o.fail(v1alpha1.ReasonProgressing, "is being removed, but its kind is not served at present")
		return
	case apierrors.IsForbidden(done.err) && p.namespaceIsGone(ctx, o.id.namespace):
		// The rights of an account in it went along, and so did the object.
	case done.held != "":
		if exempts(done.glass.answer, p.now) && (p.heldUntil.IsZero() || done.glass.answer.Until.Time.Before(p.heldUntil)) {
			p.heldUntil = done.glass.answer.Until.Time
		}
		o.fail(v1alpha1.ReasonProgressing, done.held)
		return
	case done.err != nil:
		if entry.State != v1alpha1.ObjectDeleting { // which it goes on doing
			entry.State = v1alpha1.ObjectFailed
		}
		p.refused(o, done.err, done.key, "get", "patch", "delete")
		o.fail(v1alpha1.ReasonPruneFailed, "cannot be removed: "+message(done.err, done.sensitive))
		return
	case done.deleted:
		switch {
		case done.waitsFor != "":
			o.fail(v1alpha1.ReasonProgressing, "is being deleted, and waits for "+events.Truncate(done.waitsFor, maxMessage))
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
	case entry.State == v1alpha1.ObjectDeleting, p.first && done.absent && entry.UID != "": // a Vidra before this one may have deleted it
		change.Action = events.Pruned
	}
	if change.Action != "" {
		p.state.pendingEvents = append(p.state.pendingEvents, change)
	}
	o.entry, o.problem, o.kindGoneSince = nil, nil, time.Time{}
}

// missingForGood reports whether the kind of an object has not been served for so
// long that the object is gone with it.
func (p *pass) missingForGood(o *objectState) bool {
	if o.kindGoneSince.IsZero() {
		o.kindGoneSince = p.now
		return false
	}
	return p.now.Sub(o.kindGoneSince) >= kindGoneTimeout
}
