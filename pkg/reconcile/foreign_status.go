package reconcile

import (
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// foreignStatus reports whether an update of a VidraResource is an update of its status by another client. It is a predicate
// of the controller.
func (r *Reconciler) foreignStatus(before, after *v1alpha1.VidraResource) bool {
	return !equality.Semantic.DeepEqual(before.Status, after.Status) && r.states.seen(after)
}

// noteConflict has the next reconcile read the VidraResource from the API server, and make its state anew, if err is the conflict of a write of it: the
// cache may be behind another write.
func (p *pass) noteConflict(err error) {
	if apierrors.IsConflict(err) {
		p.reconciler.caughtUp.conflicted(p.plan.VR)
		p.reconciler.states.restart(p.plan.Settings.Claimant.Owner, false)
	}
}
