package reconcile

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
)

// withdraw removes the objects that this reconcile has created, and no other ones, as the VidraResource is gone without a finalization: the API server asks for
// finalizers at the begin of a deletion, so that one that had begun ended although this reconcile added the finalizer
// meanwhile. All guards of a removal hold (ADR 123).
func (p *pass) withdraw(ctx context.Context) error {
	var err error
	p.state.lane.apart(func() { err = p.isGone(ctx) })
	if err != nil {
		p.requeuePending(true)
		return err
	}
	gone := p.VR.DeepCopy()
	gone.DeletionTimestamp = &metav1.Time{Time: p.Now}
	if p.VR = gone; p.uninstalling(ctx) != "" {
		return nil // the objects stay
	}
	p.state.lane.closeLocked()
	p.state.adopt(p.VR.Generation, nil, nil)
	created := slices.DeleteFunc(p.created, func(id object.Identity) bool { return p.state.Objects[id] == nil || p.state.Objects[id].Entry == nil })
	slices.SortFunc(created, plan.CompareForRemoval)
	remover := p.remover()
	remover.Stale, remover.Interrupted = p.isGone, nil
	remover.Prune(ctx, created)
	changes := p.state.PendingEvents
	p.state.PendingEvents = nil
	p.record(p.Owner, object.ReferenceToOwner(p.VR), p.before, p.before, changes)
	return nil
}

// isGone returns nil if the API server has no VidraResource of the name.
func (p *pass) isGone(ctx context.Context) error {
	switch err := p.API.Get(ctx, p.Owner, &v1alpha1.VidraResource{}); {
	case apierrors.IsNotFound(err) && object.IsObject(err, p.Owner.Name):
		return nil
	case err != nil:
		return fmt.Errorf("read VidraResource %s: %w", p.Owner.Name, err)
	}
	return fmt.Errorf("another VidraResource of the name %s was created", p.Owner.Name)
}
