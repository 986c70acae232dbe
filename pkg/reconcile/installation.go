package reconcile

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
)

// finalizerState is the knowledge of a reconcile about the finalizer of its VidraResource, and about its objects if the finalizer came too late.
type finalizerState struct {
	// missing reports that the VidraResource lacks it, and listed that the annotation has the inventory since the finalizer was added.
	missing, listed bool
	// gone reports that a write of the status found no VidraResource, and vanished that this reconcile has added the finalizer before.
	// created are the objects that it has created, which are removed then.
	gone, vanished bool
	created        []object.Identity
}

// hold adds the finalizer to a VidraResource that lacks it, and lists entries in an annotation of it, if they are few. It
// fails if another client wrote meanwhile.
func (p *pass) hold(ctx context.Context, entries []v1alpha1.ManagedResourceStatus) error {
	if !p.finalizer.missing {
		return nil
	}
	base := p.plan.VR.DeepCopy()
	controllerutil.AddFinalizer(p.plan.VR, p.reconciler.Assignment.Installation.Finalizer())
	listed := len(entries) > 0 && owners.SetFirstInventory(p.plan.VR, entries)
	var err error
	p.state.lane.apart(func() {
		err = p.reconciler.Clients.Client.Patch(ctx, p.plan.VR, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	})
	if listed && apierrors.IsInvalid(err) { // annotations that the cache does not keep leave no room
		p.plan.VR = base
		return p.hold(ctx, nil)
	} else if err != nil {
		p.noteConflict(err)
		return fmt.Errorf("add the finalizer to VidraResource %s: %w", p.plan.VR.Name, withoutValues(p.plan.VR, err))
	}
	p.finalizer.missing, p.finalizer.listed, p.state.inventory.justHeld = false, listed, true
	return nil
}

// withoutValues returns the error of a write of a VidraResource without parts that may quote its manifest, as a policy does:
// the log has it.
func withoutValues(vr *v1alpha1.VidraResource, err error) error {
	return object.WithoutValues(err, object.DisclosureOf(vr))
}

// awaitRelease ends a reconcile of a VidraResource that another installation is still to release.
func (p *pass) awaitRelease(ctx context.Context, other v1alpha1.Installation) (reconcile.Result, error) {
	return p.block(ctx, object.Failure{Reason: v1alpha1.ReasonProgressing, Message: fmt.Sprintf(
		"the VidraResource waits until the Vidra installation %q has released its objects: an operator of that installation has to run; "+
			"if there is none any more, remove the finalizer %s", other, other.Finalizer())})
}
