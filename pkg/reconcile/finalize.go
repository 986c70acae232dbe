package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/status"
)

// finalize removes the applied objects of a VidraResource that is being deleted, and removes the finalizer when all are gone.
func (p *pass) finalize(ctx context.Context) (reconcile.Result, error) {
	s := p.state
	s.lane.closeLocked() // a heal would create removed objects again
	if !controllerutil.ContainsFinalizer(p.plan.VR, p.reconciler.Assignment.Installation.Finalizer()) {
		p.reconciler.forget(p.plan.Settings.Claimant.Owner)
		return reconcile.Result{}, nil
	}
	s.plan.Origin.Provenance.Shards = p.shards
	p.listTransferred()
	p.listLeft(nil)
	if !p.isOfSpec() || len(s.plan.Objects.Manifest)+len(s.plan.Objects.Unresolved) > 0 { // otherwise the knowledge about the removals stays
		s.adopt(p.plan.VR.Generation, nil, nil)
	}
	objects := len(s.plan.Objects.Inventory())
	p.noteDeletion(objects)
	ordered := s.deletion.ordered
	s.deletion.ordered = time.Time{} // after another obstacle, which keeps the objects of the dependents, too
	removes := objects > 0 && !p.plan.VR.Orphans()
	if removes {
		if p.plan.VR.Spec.Suspend {
			return p.block(ctx, object.Failure{Reason: v1alpha1.ReasonDeletionSuspended, Message: fmt.Sprintf(
				"the VidraResource is being deleted, and spec.suspend keeps its objects (%d) from being removed: "+
					"set spec.suspend to false to remove them, or spec.deletionPolicy to Orphan to leave them in place", objects)})
		}
		if why := p.uninstalling(ctx); why != "" {
			return p.block(ctx, object.Failure{Reason: v1alpha1.ReasonDeletionSuspended, Message: fmt.Sprintf(
				"the VidraResource is being deleted, and its objects (%d) stay, because %s", objects, why)})
		}
	}
	why := p.connect(ctx)
	if why != nil && (objects > 0 || s.lostInventory()) && (p.starting || !p.releaseAll()) {
		number := strconv.Itoa(objects)
		if objects == 0 {
			number = "their number is not known, as the inventory was lost"
		}
		why.Message += fmt.Sprintf(". Vidra removes its objects (%s) once that is fixed; to leave them in place, set spec.deletionPolicy to Orphan", number)
		return p.refuse(ctx, *why)
	}
	if removes {
		s.deletion.ordered = ordered
		if why, until := p.dependents(ctx); why != nil {
			result, err := p.block(ctx, *why)
			if left := max(time.Until(until), time.Millisecond); result.RequeueAfter == 0 || left < result.RequeueAfter {
				result.RequeueAfter = left
			}
			return result, err
		}
	}
	for o := range s.plan.Objects.All() { // drift is ignored no longer
		o.Edits.Drift, o.Edits.Contention = nil, nil
	}
	if why == nil {
		// The removal waits for plan.RemovalSettle, and for the checks above of the reconcile after it.
		if why := p.recoverForRemoval(ctx); why != nil {
			why.Message = "the VidraResource is being deleted, its inventory was lost, and its manifest cannot be read: " + why.Message +
				". Fix the manifest to have its objects removed, or set spec.deletionPolicy to Orphan to leave them in place"
			return p.block(ctx, *why)
		}
	}
	p.watch(ctx)
	ids := s.plan.Objects.Leftovers() // all of the inventory, as the state has no manifest by now
	if !p.applier.Orphans {           // otherwise nothing is deleted
		ids = p.plan.RestRemovals(p.plan.SettleRemovals(ids, plan.Settling))
	}
	p.remover().Prune(ctx, ids)
	if s.attempt.interrupted.Load() {
		return p.interrupted()
	}
	if len(s.plan.Objects.Inventory()) > 0 {
		return p.conclude(ctx, status.Outcome{Deleting: true})
	}
	// The Events are recorded first: without the finalizer, the VidraResource that they regard is deleted.
	if _, err := p.finish(ctx, status.Outcome{Deleting: true, Finalizers: p.foreignFinalizers()}); err != nil {
		return reconcile.Result{}, err
	}
	base := p.plan.VR.DeepCopy()
	controllerutil.RemoveFinalizer(p.plan.VR, p.reconciler.Assignment.Installation.Finalizer())
	var err error
	p.state.lane.apart(func() {
		err = p.reconciler.Clients.Client.Patch(ctx, p.plan.VR, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	})
	p.noteConflict(err)
	if err != nil && !object.IsAbsent(err, p.plan.VR.Name) {
		return reconcile.Result{}, fmt.Errorf("remove the finalizer from VidraResource %s: %w", p.plan.VR.Name, withoutValues(p.plan.VR, err))
	}
	p.reconciler.forget(p.plan.Settings.Claimant.Owner)
	return reconcile.Result{}, nil
}

// noteDeletion notes that the VidraResource is being deleted, once for each spec: spec.deletionPolicy may change
// meanwhile.
func (p *pass) noteDeletion(objects int) {
	if s := p.state; p.plan.VR.DeletionTimestamp.IsZero() || s.deletion.noted == p.plan.VR.Generation || s.plan.Status.ObservedGeneration == p.plan.VR.Generation {
		return
	}
	p.state.deletion.noted = p.plan.VR.Generation
	becomes := "are removed"
	if p.plan.VR.Orphans() {
		becomes = "are left in place, as spec.deletionPolicy says"
	}
	note := fmt.Sprintf("is being deleted: its objects (%d) %s", objects, becomes)
	p.plan.Note(events.Change{Action: events.Deleted, Object: object.ReferenceToOwner(p.plan.VR), Note: note})
}

// foreignFinalizers are the finalizers of other controllers that delay a deletion. The garbage collector removes its own at
// once.
func (p *pass) foreignFinalizers() string {
	return strings.Join(slices.DeleteFunc(slices.Clone(p.plan.VR.Finalizers), func(name string) bool {
		garbage := name == metav1.FinalizerDeleteDependents || name == metav1.FinalizerOrphanDependents
		return garbage || name == p.reconciler.Assignment.Installation.Finalizer() || p.plan.VR.DeletionTimestamp.IsZero()
	}), ", ")
}
