package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
)

// withdraw removes the objects that this reconcile has created, and no other ones, as the VidraResource is gone without a finalization: the API server asks for
// finalizers at the begin of a deletion, so that one that had begun ended although this reconcile added the finalizer
// meanwhile. All guards of a removal hold (ADR 123).
func (p *pass) withdraw(ctx context.Context) {
	p.state.lane.closeLocked()
	p.state.adopt(p.VR.Generation, nil, nil)
	slices.SortFunc(p.created, plan.CompareForRemoval)
	remover := p.remover()
	remover.Stale, remover.Interrupted = p.isGone, nil
	remover.Prune(ctx, p.created)
	changes := p.state.PendingEvents
	p.state.PendingEvents = nil
	p.record(p.Owner, object.ReferenceToOwner(p.VR), p.before, p.before, changes)
}

// isGone returns nil if the API server has no VidraResource of the name.
func (p *pass) isGone(ctx context.Context) error {
	switch err := p.API.Get(ctx, p.Owner, &v1alpha1.VidraResource{}); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read the VidraResource: %w", err)
	}
	return errors.New("another VidraResource of its name was created")
}

// takeOver has a state begin with the objects that a former VidraResource of the name had just created, when it was deleted without a
// finalization (see withdraw): those that the manifest lacks are removed as if they had left it.
func (s *ownerState) takeOver(former *ownerState) {
	for _, o := range former.Inventory() {
		if entry := *o.Entry; entry.UID != "" {
			s.Track(o.ID).Entry = &entry
		}
	}
}
