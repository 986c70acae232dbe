package reconcile

import (
	"context"
	"slices"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/status"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// postponed is a reconcile that has done everything but to write the status: Ready is reported
// only after the watches have shown the applied objects. It occupies no worker.
type postponed struct {
	pass    *pass
	outcome status.Outcome
	// until is when the status is written in any case.
	until time.Time
}

// concludeObserved ends a reconcile, at once or when the watches have shown its applied objects.
func (p *pass) concludeObserved(ctx context.Context, applied []plan.Task, o status.Outcome) (reconcile.Result, error) {
	p.NoteApplied(applied)
	if !p.AwaitsWatches() {
		return p.conclude(ctx, o)
	}
	p.state.postponed = &postponed{pass: p, outcome: o, until: time.Now().Add(plan.ObserveTimeout)}
	return p.state.postponed.again(), nil
}

// again returns when to check the next time: after as long as it has waited.
func (w *postponed) again() reconcile.Result {
	left := time.Until(w.until)
	waited := plan.ObserveTimeout - left
	return reconcile.Result{RequeueAfter: max(plan.ObserveMin, min(waited, left)), Priority: ptr.To(trigger.ContendedPriority)}
}

// resume continues a reconcile that was postponed, if there is one. It reports false if the
// VidraResource is to be reconciled with the causes, which may be others then.
func (r *Reconciler) resume(ctx context.Context, owner trigger.Owner, vr *v1alpha1.VidraResource, causes *trigger.Causes) (reconcile.Result, bool, error) {
	s := r.stateOf(owner)
	if s == nil || s.postponed == nil {
		return reconcile.Result{}, false, nil
	}
	s.lane.enter()
	defer s.lane.leave()
	w := s.postponed
	p := w.pass
	switch {
	case s.UID != vr.UID || !r.Reconciles(vr) || !slices.Equal(p.shards, v1alpha1.ShardsOf(vr, r.Shard)): // what is known begins anew
		s.postponed = nil
		p.requeuePending(true)
	case len(causes.Objects) == 0 && time.Now().Before(w.until) && p.AwaitsWatches(): // an edit does not wait
		r.Trigger.RequeueCauses(owner, *causes)
		return w.again(), true, nil
	default:
		s.postponed, p.VR.Status = nil, vr.Status
		result, err := p.conclude(ctx, w.outcome)
		if err != nil {
			r.Trigger.RequeueCauses(owner, *causes)
			return result, true, err
		}
		if causes.Empty() && !changedSince(p.VR, vr) {
			return result, true, nil
		}
	}
	r.Trigger.RequeueCauses(owner, *causes)
	*causes = r.Trigger.TakeCauses(owner)
	return reconcile.Result{}, false, nil
}

// changedSince reports whether a VidraResource has to be reconciled because another client changed it since a reconcile read
// it: its changes enqueue it without a cause. Other installations and shards are in resume.
func changedSince(read, now *v1alpha1.VidraResource) bool {
	return read.Generation != now.Generation || read.DeletionTimestamp.IsZero() != now.DeletionTimestamp.IsZero() ||
		read.ReconcileRequest() != now.ReconcileRequest()
}

// dropPostponed forgets a reconcile that was postponed when Vidra ends. The next process finds its writes.
func (s *ownerState) dropPostponed() {
	if s.postponed != nil {
		s.postponed = nil
		s.DropFoundAgain()
	}
}
