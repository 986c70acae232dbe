package reconcile

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/status"
)

// concludeObserved ends a reconcile when the watches have shown its applied objects, as Ready promises that, or after plan.ObserveTimeout. It waits without
// a worker.
func (p *pass) concludeObserved(ctx context.Context, applied []plan.Task, o status.Outcome) (reconcile.Result, error) {
	p.plan.NoteApplied(applied)
	until := time.Now().Add(plan.ObserveTimeout)
	for delay := plan.ObserveMin; p.plan.AwaitsWatches() && ctx.Err() == nil && time.Now().Before(until); delay *= 2 {
		p.leavePlaces()
		p.state.lane.pause(ctx, min(delay, time.Until(until)))
	}
	if ctx.Err() != nil { // Vidra ends, and the next process finds the applied objects
		return reconcile.Result{}, nil //nolint:nilerr // the end of the context is no failure
	}
	return p.conclude(ctx, o)
}
