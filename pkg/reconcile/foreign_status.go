package reconcile

import (
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// foreignStatus reports whether an update of a VidraResource is an update of its status by another client. It is a predicate
// of the controller.
func (r *Reconciler) foreignStatus(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*v1alpha1.VidraResource)
	after, is := e.ObjectNew.(*v1alpha1.VidraResource)
	if !ok || !is || equality.Semantic.DeepEqual(before.Status, after.Status) {
		return false
	}
	return r.states.seen(after)
}

// noteConflict has the next reconcile read the VidraResource from the API server, and make its state anew, if err is the conflict of a write of it: the
// cache may be behind another write.
func (p *pass) noteConflict(err error) {
	if apierrors.IsConflict(err) {
		p.reconciler.caughtUp.conflicted(p.plan.VR)
		p.reconciler.states.restart(p.plan.Settings.Claimant.Owner)
	}
}
