package reconcile

import (
	"context"
	"fmt"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// This file has what concerns several installations of Vidra: which VidraResources this one
// reconciles, and what it does about objects that another one applies, too (ADR 25).

// reconciles reports whether this installation reconciles a VidraResource.
func (r *Reconciler) reconciles(vr *v1alpha1.VidraResource) bool {
	return v1alpha1.InstallationOf(vr) == r.Installation
}

// holds reports whether this installation has not released a VidraResource yet.
func (r *Reconciler) holds(vr *v1alpha1.VidraResource) bool {
	return controllerutil.ContainsFinalizer(vr, r.Installation.Finalizer())
}

// handedOver is a predicate of the controller. It reports whether an update gave a
// VidraResource to another installation, or ended that another one holds it.
func (r *Reconciler) handedOver(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*v1alpha1.VidraResource)
	after, is := e.ObjectNew.(*v1alpha1.VidraResource)
	if !ok || !is {
		return false
	}
	_, wasHeld := r.Installation.HeldByAnother(before)
	_, isHeld := r.Installation.HeldByAnother(after)
	return v1alpha1.InstallationOf(before) != v1alpha1.InstallationOf(after) || wasHeld && !isHeld
}

// release has a reconcile of a VidraResource that another installation reconciles from now on
// leave its objects in place, unmanaged: the other one then adopts them. Where the
// VidraResource is being deleted, spec.deletionPolicy decides.
func release(vr *v1alpha1.VidraResource) { vr.Spec.Prune = ptr.To(false) }

// awaitRelease ends a reconcile of a VidraResource that another installation has not released.
func (p *pass) awaitRelease(ctx context.Context, other v1alpha1.Installation) (reconcile.Result, error) {
	return p.block(ctx, object.Failure{Reason: v1alpha1.ReasonProgressing, Message: fmt.Sprintf(
		"the VidraResource waits until the Vidra installation %q has released its objects: an operator of that installation has to run; "+
			"if there is none any more, remove the finalizer %s", other, other.Finalizer())})
}
