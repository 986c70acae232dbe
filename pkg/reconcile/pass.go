package reconcile

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// pass is one reconcile of one VidraResource.
type pass struct {
	*Reconciler
	*planner
	recorder
	state   *ownerState
	applier *applier
	// before is the status at the beginning.
	before v1alpha1.VidraResourceStatus
	// kubeconfig is what the kubeconfig of another cluster may be used for.
	kubeconfig cluster.Scope
	// unread reports that the manifest could not be read; source is why, if the pass goes on
	// with what was read before.
	unread bool
	source *failure
	// foreignWritten is the status as another client wrote it, which is corrected; nil if none
	// did.
	foreignWritten *v1alpha1.VidraResourceStatus
	// starting reports that it is not known yet whether the destination can be reached,
	// and soon will be.
	starting bool
}

func (r *Reconciler) newPass(owner trigger.Owner, vr *v1alpha1.VidraResource, causes trigger.Causes, keys seal.Keys) *pass {
	s, first := r.ownerState(owner, vr, keys)
	by := &settings{
		claimant: claimant{owner: owner, installation: r.Installation, manager: r.Installation.FieldManager(vr.Name)},
		adopt:    vr.AdoptPolicy(), force: vr.Spec.Force, maxBreakGlass: vr.MaxBreakGlass(r.MaxBreakGlass),
		glassRoom: sync.OnceValue(func() *breakGlassRoom { return newBreakGlassRoom(s.inventory()) }),
		additions: r.additionsOf(vr), watched: vr.WatchesEvents(),
	}
	p := &pass{
		Reconciler: r, state: s, before: s.status,
		planner: &planner{
			planEnv:  &planEnv{Watches: r.Watches, Index: r.Index, Trigger: r.Trigger, Metrics: r.Metrics, budget: &r.budget, recompute: r.recompute},
			settings: by, vr: vr, state: &s.vrState,
			now: time.Now(), causes: causes, pendingDrift: map[trigger.ObjectKey]trigger.Cause{},
			first: first || s.unbegun, skippedBefore: map[identity]*drift{},
		},
		applier: &applier{
			settings: by, finder: &coOwnerFinder{claimant: by.claimant, index: r.Index, vidraResources: r.Client},
			destination: r.Local, trigger: r.Trigger, index: r.Index, limit: r.limit(), orphans: vr.Orphans(),
		},
	}
	p.recorder = recorder{planner: p.planner, applier: p.applier}
	p.terminating = p.isTerminating(map[string]bool{})
	s.unbegun = false
	if first {
		r.Trigger.EndContentions(owner)
	}
	if causes.Retry || s.attempted != vr.Generation {
		s.schedule.retryNow()
	}
	s.attempted = vr.Generation
	sourcesChanged, sourcesUnknown := r.sourcesChanged(vr, s)
	p.scope = decideScope(scopeInput{
		now: p.now, generation: vr.Generation, read: s.generation, observed: s.status.ObservedGeneration,
		finalizing: !vr.DeletionTimestamp.IsZero() || !r.reconciles(vr), sourcesChanged: sourcesChanged, sourcesUnknown: sourcesUnknown,
		reread: s.reread, accountMissing: s.accountMissing(), causes: causes, schedule: s.schedule,
		comparesObjects: p.comparesObjects(), hasSuspects: s.suspects(),
	})
	if p.scope.resync {
		s.schedule.resync = p.now.Add(wait.Jitter(vr.ResyncInterval(), resyncJitter))
	}
	return p
}

// run does the pass.
func (p *pass) run(ctx context.Context) (reconcile.Result, error) {
	if why := p.connect(ctx); why != nil {
		return p.refuse(ctx, *why)
	}
	p.accountAllowed()
	switch why := p.read(ctx); {
	case why == nil:
	case p.unread && p.state.generation == p.vr.Generation && p.state.stalled == nil && len(p.state.manifest) > 0 && !p.state.dropped:
		p.source = why // what was read last is kept as it is until then
	case why.reason == v1alpha1.ReasonSourceUnavailable:
		return p.block(ctx, *why)
	default:
		return p.stall(ctx, *why)
	}
	defer p.keepBodies(p.state)
	for _, o := range p.state.manifest {
		if why := objectOutOfScope(p.kubeconfig, o.id); why != nil {
			return p.block(ctx, *why)
		}
	}
	p.load()
	p.watch(ctx)
	p.recoverInventory()
	causes := p.selectObjects(p.scope.changed && p.source == nil)
	p.backstop(ctx, causes)
	p.holdContended(causes)
	todo := p.preflightAll(ctx, p.suspend(p.webhooksLast(p.plan(ctx, causes))))
	if err := p.writeAhead(ctx, todo); err != nil {
		p.requeueCauses()
		return reconcile.Result{}, err
	}
	p.applyAll(ctx, todo.apply)
	p.recordBlocked(todo)
	todo.prune = p.keepUntilApplied(todo.prune)
	p.remover().pruneAll(ctx, todo.prune)
	if len(todo.prune) > 0 {
		p.watch(ctx)
	}
	return p.concludeObserved(ctx, todo.apply, outcome{synced: len(todo.apply) > 0 && p.scope.all && p.state.problems() == 0})
}

// requeueCauses returns the causes, so that the next reconcile does what this one did not.
func (p *pass) requeueCauses() {
	p.causes.All = p.causes.All || p.scope.all
	p.Trigger.RequeueCauses(p.owner, p.causes)
}

// requeuePending returns the causes that the status does not report. all reports whether that
// may be any object.
func (p *pass) requeuePending(all bool) {
	p.Trigger.RequeueCauses(p.owner, trigger.Causes{Objects: p.pendingDrift, All: all, Health: p.causes.Health})
}

// remover returns what removes objects of the VidraResource.
func (p *pass) remover() *remover { return &remover{applier: p.applier, plan: p.planner} }

// load makes the inventory known to the index, after a restart.
func (p *pass) load() {
	if !p.watched {
		return
	}
	p.Index.CountAdditions(p.owner, p.applier.additions.tools)
	if p.state.loaded {
		return
	}
	p.state.loaded = true
	known := map[trigger.ObjectKey]trigger.Applied{}
	for _, o := range p.state.manifest {
		if o.entry == nil {
			continue
		}
		if applied, ok := appliedBefore(p.manager, o.entry); ok {
			known[o.desired.key] = applied
		}
	}
	p.Index.Load(p.owner, known)
}

// stall ends a pass over a VidraResource that only its author can fix. What
// was applied before stays as it is, and stays in the inventory.
func (p *pass) stall(ctx context.Context, why failure) (reconcile.Result, error) {
	p.state.generation, p.state.stalled = p.vr.Generation, &why
	for key := range p.causes.Objects {
		p.pendingDrift[key] = trigger.Cause{Unsure: true} // the object need not be kept until then
	}
	if why.reason != v1alpha1.ReasonServiceAccountRequired { // otherwise it may ask nothing
		p.skipAll(ctx, why)
	}
	return p.finish(ctx, outcome{stalled: &why, compared: len(p.state.manifest) > 0})
}
