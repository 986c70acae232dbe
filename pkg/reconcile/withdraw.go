package reconcile

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
)

// withdraw removes the objects that this reconcile has created, and only these, as the VidraResource is gone without a finalization: the API server
// asks for finalizers at the begin of a deletion, so that one that had begun ended although this reconcile added the finalizer
// meanwhile. All guards of a removal hold (ADR 123).
func (p *pass) withdraw(ctx context.Context) error {
	var err error
	p.state.lane.apart(func() { err = p.isGone(ctx) })
	if err != nil {
		p.requeuePending(true)
		return err
	}
	gone := p.plan.VR.DeepCopy()
	gone.DeletionTimestamp = &metav1.Time{Time: p.plan.Now}
	if p.plan.VR = gone; p.uninstalling(ctx) != "" {
		return nil // the objects stay
	}
	p.state.lane.closeLocked()
	p.state.adopt(p.plan.VR.Generation, nil, nil)
	created := slices.DeleteFunc(p.finalizer.created, func(id object.Identity) bool {
		return p.state.plan.Objects.ByID[id] == nil || p.state.plan.Objects.ByID[id].Entry == nil
	})
	slices.SortFunc(created, plan.CompareForRemoval)
	remover := p.remover()
	remover.Stale, remover.Interrupted = p.isGone, nil
	remover.Prune(ctx, created)
	changes := p.state.plan.PendingEvents
	p.state.plan.PendingEvents = nil
	p.reconciler.record(p.plan.Settings.Claimant.Owner, object.ReferenceToOwner(p.plan.VR), p.before, p.before, changes)
	return nil
}

// isGone returns nil if the API server has no VidraResource of the name.
func (p *pass) isGone(ctx context.Context) error {
	switch err := p.reconciler.API.Get(ctx, p.plan.Settings.Claimant.Owner, &v1alpha1.VidraResource{}); {
	case object.IsAbsent(err, p.plan.Settings.Claimant.Owner.Name):
		return nil
	case err != nil:
		return fmt.Errorf("read VidraResource %s: %w", p.plan.Settings.Claimant.Owner.Name, err)
	}
	return fmt.Errorf("another VidraResource of the name %s was created", p.plan.Settings.Claimant.Owner.Name)
}
