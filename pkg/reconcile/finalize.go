package reconcile

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// finalize removes what a VidraResource that is being deleted has applied, and
// lets it go when all of it is gone.
func (p *pass) finalize(ctx context.Context) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(p.vr, p.Installation.Finalizer()) {
		p.forget(p.owner)
		return reconcile.Result{}, nil
	}
	s := p.state
	if s.generation != p.vr.Generation || len(s.manifest)+len(s.unresolved) > 0 { // what is known of the removals stays known
		s.adopt(p.vr.Generation, nil, nil)
	}
	objects := len(s.inventory())
	if p.vr.Spec.Suspend && !p.vr.Orphans() && objects > 0 {
		return p.block(ctx, failure{v1alpha1.ReasonDeletionSuspended, fmt.Sprintf(
			"the VidraResource is being deleted, and spec.suspend keeps its objects (%d) from being removed: "+
				"set spec.suspend to false to remove them, or spec.deletionPolicy to Orphan to leave them in place", objects)})
	}
	for o := range s.all() { // nothing is left as it is any more
		o.drift, o.contention = nil, nil
	}
	why := p.connect(ctx)
	if why != nil && objects > 0 && (p.starting || !p.releaseAll()) {
		why.message += fmt.Sprintf(". Vidra removes its objects (%d) once that is fixed; to leave them in place, set spec.deletionPolicy to Orphan", objects)
		return p.refuse(ctx, *why)
	}
	if why == nil {
		p.recoverForRemoval(ctx)
	}
	p.watch(ctx)
	var ids []identity
	for _, o := range s.inventory() {
		ids = append(ids, o.id)
	}
	slices.SortFunc(ids, compareForRemoval)
	p.remover().pruneAll(ctx, ids)
	if len(s.inventory()) > 0 {
		return p.conclude(ctx, outcome{deleting: true})
	}
	// The Events go first: with the finalizer, the reader's object goes too.
	if _, err := p.finish(ctx, outcome{deleting: true}); err != nil {
		return reconcile.Result{}, err
	}
	base := p.vr.DeepCopy()
	controllerutil.RemoveFinalizer(p.vr, p.Installation.Finalizer())
	err := p.Client.Patch(ctx, p.vr, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	if err != nil && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("remove the finalizer from VidraResource %s: %w", p.vr.Name, err)
	}
	p.forget(p.owner)
	return reconcile.Result{}, nil
}
