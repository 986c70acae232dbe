package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// writeAhead writes the objects that are about to be created into the
// inventory: should Vidra stop in between, they are found again.
func (p *pass) writeAhead(ctx context.Context, todo plan) error {
	var added []*objectState
	for _, t := range todo.apply {
		if t.why == whyNew && t.known.entry == nil {
			t.known.entry = entryOf(t.id, t.gvk)
			added = append(added, t.known)
		}
	}
	if len(added) == 0 {
		return nil
	}
	err := p.writeInventory(ctx)
	if err != nil {
		for _, o := range added {
			o.entry = nil // it is not written, so nothing may be created yet
		}
	}
	return err
}

// writeInventory writes the inventory before the objects are written that it speaks of.
func (p *pass) writeInventory(ctx context.Context) error {
	return p.writeStatus(ctx, applying(p.state.status, p.state.entries(), p.now))
}

// finish writes the status if it changed, then the Events that speak of it.
func (p *pass) finish(ctx context.Context, o outcome) (reconcile.Result, error) {
	s := p.state
	p.endContentions()
	if o.stalled == nil && o.blocked == nil && !o.deleting {
		p.checkup()
		o.health = s.health
	}
	p.forgetAdditions()
	o.source = p.source
	p.conclusion(&o)
	p.awaitRights(o.all)
	s.forgetUnused()
	after := summarize(s.status, o)
	end := ending{all: o.all, stalled: o.stalled != nil, blocked: o.blocked != nil || o.source != nil, unobserved: o.unobserved != nil}
	s.schedule.attempted(p.failed(end), end.all, p.now)
	restores, later := p.restores(ctx)
	next := earliest(append(p.wakes(end), wake{later, wakeStatus}))
	if restores {
		p.foreignWritten = p.vr.Status.DeepCopy()
	}
	if restores || s.schedule.flushDue(p.now) || !equality.Semantic.DeepEqual(s.status, after) {
		if err := p.writeStatus(ctx, after); err != nil {
			p.requeuePending(o.all)
			if ctx.Err() != nil { // Vidra ends
				s.pendingEvents = slices.DeleteFunc(s.pendingEvents, foundAgain)
			}
			return reconcile.Result{}, err
		}
	}
	p.Trigger.RequeueCauses(p.owner, trigger.Causes{Objects: p.pendingDrift})
	p.record(p.owner, referenceToOwner(p.vr), p.before, s.status, s.pendingEvents)
	s.pendingEvents = nil
	ctrllog.FromContext(ctx).V(1).Info("Reconciled", "next", next.at, "why", next.why)
	return p.requeue(next), nil
}

// foundAgain reports whether the next reconcile finds a change again that no status has, so
// that it need not be remembered.
func foundAgain(change events.Change) bool {
	switch change.Action {
	case events.Created, events.Configured, events.Detected, events.Contended, events.Settled, events.Answered:
		return true
	case events.Restored, events.Recreated, events.Relabelled, events.Replaced, events.Pruned, events.Released, events.Orphaned:
	}
	return false
}

// writeStatus writes a status, with the heals that it does not count yet.
func (p *pass) writeStatus(ctx context.Context, status v1alpha1.VidraResourceStatus) error {
	s := p.state
	base, changed := p.vr.DeepCopy(), p.vr.DeepCopy()
	base.Status = s.status
	if p.foreignWritten != nil {
		base.Status = *p.foreignWritten
	}
	changed.Status = s.withHeals(status)
	written := changed.Status // Patch overwrites changed with the answer
	patch := client.MergeFrom(base)
	if !s.written {
		// What the cache holds may be older than what an operator before us wrote.
		patch = client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
	}
	p.beginWrite(s)
	err := p.Client.Status().Patch(ctx, changed, patch)
	if err != nil {
		p.endWrite(p.owner, s, "")
	} else {
		p.endWrite(p.owner, s, changed.ResourceVersion)
	}
	if apierrors.IsConflict(err) {
		p.restartState(p.owner)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write the status of VidraResource %s: %w", p.vr.Name, err)
	}
	p.vr.ResourceVersion = changed.ResourceVersion
	s.status, s.heals, s.schedule.flush, s.written = written, 0, time.Time{}, true
	return nil
}
