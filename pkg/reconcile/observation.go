package reconcile

import (
	"context"
	"slices"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

const (
	// observeMin is when a reconcile looks for the first time whether the watches have shown
	// what it applied, and observeTimeout how long it waits for that: mostly a few milliseconds.
	observeMin     = 2 * time.Millisecond
	observeTimeout = 500 * time.Millisecond
	// observeRetry is the time between two looks after that.
	observeRetry = 200 * time.Millisecond
)

// postponed is a reconcile that has done everything but to write the status: Ready is reported
// only after the watches have shown the applied objects. It occupies no worker.
type postponed struct {
	pass    *pass
	outcome outcome
	// until is when the status is written in any case.
	until time.Time
}

// concludeObserved ends a reconcile, at once or when the watches have shown what it applied.
func (p *pass) concludeObserved(ctx context.Context, applied []task, o outcome) (reconcile.Result, error) {
	p.noteApplied(applied)
	if !p.awaitsWatches() {
		return p.conclude(ctx, o)
	}
	p.state.postponed = &postponed{pass: p, outcome: o, until: time.Now().Add(observeTimeout)}
	return p.state.postponed.again(), nil
}

// again returns when to look the next time: after as long as it has waited.
func (w *postponed) again() reconcile.Result {
	left := time.Until(w.until)
	waited := observeTimeout - left
	return reconcile.Result{RequeueAfter: max(observeMin, min(waited, left)), Priority: ptr.To(trigger.ContendedPriority)}
}

// resume goes on with a reconcile that was postponed, if there is one. It reports false if the
// VidraResource is to be reconciled with the causes, which may be others then.
func (r *Reconciler) resume(ctx context.Context, owner trigger.Owner, vr *v1alpha1.VidraResource, causes *trigger.Causes) (reconcile.Result, bool, error) {
	s := r.stateOf(owner)
	if s == nil || s.postponed == nil {
		return reconcile.Result{}, false, nil
	}
	w := s.postponed
	p := w.pass
	switch {
	case s.uid != vr.UID || !r.reconciles(vr): // what is known begins anew
		s.postponed = nil
		p.requeuePending(true)
	case len(causes.Objects) == 0 && time.Now().Before(w.until) && p.awaitsWatches(): // an edit does not wait
		r.Trigger.RequeueCauses(owner, *causes)
		return w.again(), true, nil
	default:
		s.postponed, p.vr.Status = nil, vr.Status
		result, err := p.conclude(ctx, w.outcome)
		if err != nil || causes.Empty() {
			return result, true, err
		}
	}
	r.Trigger.RequeueCauses(owner, *causes)
	*causes = r.Trigger.TakeCauses(owner)
	return reconcile.Result{}, false, nil
}

// dropPostponed forgets a reconcile that was postponed when Vidra ends. The next process
// finds what it did.
func (s *ownerState) dropPostponed() {
	if s.postponed != nil {
		s.postponed = nil
		s.pendingEvents = slices.DeleteFunc(s.pendingEvents, foundAgain)
	}
}

// noteApplied notes which objects were applied and have to be observed.
func (p *planner) noteApplied(applied []task) {
	if !p.watched {
		for o := range p.state.all() {
			o.unobserved = false
		}
		return
	}
	for _, t := range applied {
		if t.why != whyDrift && t.known.in(v1alpha1.ObjectApplied) {
			t.known.unobserved, t.known.watching = true, true
		}
	}
}

// awaitsWatches looks which objects the watches have shown, and reports whether a watch that is
// synced has still to show one.
func (p *planner) awaitsWatches() bool {
	awaits := false
	for o := range p.state.all() {
		if o.unobserved {
			var observed bool
			observed, o.watching = p.isObserved(o)
			o.unobserved = !observed
			awaits = awaits || o.unobserved && o.watching
		}
	}
	return awaits
}

// isObserved reports whether a watch has shown an object as it was applied, and whether it is
// about to. What has left the manifest or failed since need not be shown.
func (p *planner) isObserved(o *objectState) (observed, watching bool) {
	d := o.desired
	if d == nil || !o.in(v1alpha1.ObjectApplied) {
		return true, false
	}
	kept, found, synced := p.Watches.Get(watchKey(d.key), d.key.Namespace, d.key.Name)
	return synced && found && p.Index.HasObserved(p.owner, d.key, kept), synced
}

// unobservedObject returns an object that a synced watch has not shown yet; nil if there is
// none. That a watch is not synced is reported elsewhere.
func (s *vrState) unobservedObject() *v1alpha1.ProblemObject {
	for _, o := range s.manifest { // in order, so that it stays the same
		if o.unobserved && o.watching {
			return problemObject(o.desired.gvk, o.id)
		}
	}
	return nil
}
