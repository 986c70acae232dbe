package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/healthcheck"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/apply"
	"github.com/vidra-operator/vidra/pkg/reconcile/assignment"
	"github.com/vidra-operator/vidra/pkg/reconcile/backstop"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/prune"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
	"github.com/vidra-operator/vidra/pkg/reconcile/status"
	"github.com/vidra-operator/vidra/pkg/source"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// pass is one reconcile of one VidraResource.
type pass struct {
	reconciler *Reconciler
	plan       *plan.Planner
	state      *ownerState
	applier    *apply.Applier
	// before is the status at the beginning.
	before v1alpha1.VidraResourceStatus
	// obstacles are the known obstacles: Source, if the reconcile continues with the last read, and Waiting.
	obstacles status.Obstacles
	// starting reports that it is still unknown whether the destination can be reached,
	// and known soon.
	starting bool
	// shards are those that reconcile the VidraResource.
	shards []string
	// begun is how many tasks have begun.
	begun atomic.Int64
	// foreign is the last write of the status by another client before the VidraResource was read, or 0.
	foreign int
	// finalizer is the finalizer of the VidraResource, with the objects that are removed if it came too late.
	finalizer finalizerState
	// leavePlaces gives back the places of the reconcile at its cluster and among large manifests, and its worker.
	leavePlaces func()
}

// passOn returns a reconcile that lacks causes and a scope.
func (r *Reconciler) passOn(owner trigger.Owner, vr *v1alpha1.VidraResource, s *ownerState, shards []string) *pass {
	s.checks = healthcheck.Compile(vr.Spec.HealthChecks, s.checks)
	by := &plan.Settings{
		Claimant: owners.Claimant{Owner: owner, Installation: r.Assignment.Installation, Manager: r.Assignment.Installation.FieldManager(vr.Name), ShardLabels: r.Assignment.Installation.ShardLabelKeys(shards)},
		UID:      vr.UID, Adopt: vr.AdoptPolicy(), Force: vr.Spec.Force, UnmanagedContents: vr.Spec.UnmanagedContents,
		BreakGlass: plan.BreakGlassSettings{Max: vr.MaxBreakGlass(r.Options.MaxBreakGlass), Room: sync.OnceValue(s.glassRoom), Within: s.exemptWithin},
		Additions:  plan.AdditionsOf(vr, r.Options.Additions, r.Options.PeopleTools), Tools: r.Options.PeopleTools, Checks: s.checks,
		Watched: vr.WatchesEvents(), Stamped: r.Options.UserStamps && access.IsLocal(vr.Spec.Destination.Server),
	}
	p := &pass{
		reconciler: r, state: s, before: s.plan.Status, shards: shards,
		plan: &plan.Planner{
			Env: &plan.Env{
				Watches: r.Watching.Watches, Index: r.Watching.Index, Trigger: r.Watching.Trigger, Metrics: r.Reports.Metrics,
				Budget: &r.bounds.budget, Recompute: r.bounds.recompute, Obstacles: &r.Watching.obstacles,
			},
			Settings: by, VR: vr, State: &s.plan,
			Now: time.Now(), Findings: plan.Findings{PendingDrift: map[trigger.ObjectKey]trigger.Cause{}, SkippedBefore: map[object.Identity]*plan.Drift{}},
		},
		applier: &apply.Applier{
			Settings: by,
			Finder: &owners.Finder{
				Claimant: by.Claimant, Index: r.Watching.Index, VidraResources: r.Clients.Client, Elsewhere: r.Assignment.Elsewhere, Named: &r.related.named,
			},
			Destination: r.Clusters.Local, Trigger: r.Watching.Trigger, Index: r.Watching.Index, Limit: r.limit(), Orphans: vr.Orphans(),
		},
	}
	if p.applier.Slot = p.slot; r.Assignment.Shard != "" {
		p.applier.LeftShard = p.leftShard
	}
	p.applier.Finder.MayTake, p.applier.Finder.IsSame = p.mayTake, p.isSame
	p.plan.Terminating = p.isTerminating()
	return p
}

// glassRoom returns the number of further break-glass answers. Its caller must not have the lock of the lane.
func (s *ownerState) glassRoom() *atomic.Int64 {
	s.lane.mu.Lock()
	defer s.lane.mu.Unlock()
	return plan.NewBreakGlassRoom(s.plan.Objects.Inventory())
}

// exemptWithin describes an exempt object that would be deleted with a container. Its caller must not have the lock of the lane.
func (s *ownerState) exemptWithin(container object.Identity) string {
	s.lane.mu.Lock()
	defer s.lane.mu.Unlock()
	return plan.ExemptWithin(s.plan.Objects.Inventory(), container, time.Now())
}

// newPass returns a reconcile that has entered the lane of the VidraResource.
func (r *Reconciler) newPass(owner trigger.Owner, vr *v1alpha1.VidraResource, causes trigger.Causes, keys seal.Keys) *pass {
	s := r.states.current(owner, vr)
	first := s == nil
	if first {
		r.endHeals(owner) // what they report is inherited
		s = r.states.renew(owner, vr, keys)
	}
	s.lane.enter()
	shards := v1alpha1.ShardsOf(vr, r.Assignment.Shard)
	if !slices.Equal(shards, s.plan.Origin.Provenance.Shards) {
		s.plan.Read.Again, causes.All = true, true
	}
	p := r.passOn(owner, vr, s, shards)
	p.plan.Causes, p.plan.First, s.attempt.unbegun = causes, first || s.attempt.unbegun, false
	p.applier.Apart = s.lane.apart
	if first {
		r.Watching.Trigger.EndContentions(owner)
	}
	revisions := r.revisionsOf(vr)
	if p.plan.Revised = s.plan.Read.Generation != vr.Generation; causes.Retry || s.attempt.generation != vr.Generation {
		s.plan.RetryNow()
	} else if s.attempt.isOfAnother(vr.Generation, revisions) {
		s.plan.Schedule.Retry = plan.Retry{}
	}
	s.attempt.generation, s.attempt.revisions = vr.Generation, revisions
	s.attempt.interrupted.Store(false)
	request := vr.ReconcileRequest()
	requested := request != "" && request != s.plan.Status.LastHandledReconcileAt
	if requested {
		s.plan.Schedule.Resync = time.Time{}
	}
	sourcesChanged, sourcesUnknown := s.sourcesChanged(vr, revisions)
	s.plan.Watching.FailingSources = r.Watching.sources.Failing(vr)
	// An event may be lost, as one of a managed object may.
	lost := r.Options.BackstopInterval > 0 && time.Since(s.read.at) > r.Options.BackstopInterval
	sourcesUnknown = sourcesUnknown || len(vr.Spec.ManifestFrom) > 0 && (requested || lost)
	p.backstop().Note(causes.Suspects)
	p.plan.Causes.Suspects = nil
	p.plan.Scope = plan.DecideScope(plan.ScopeInput{
		Now: p.plan.Now, Generations: plan.Generations{Spec: vr.Generation, Read: s.plan.Read.Generation, Observed: s.plan.Status.ObservedGeneration},
		Finalizing: !vr.DeletionTimestamp.IsZero() || !r.Assignment.Reconciles(vr), SourcesChanged: sourcesChanged, SourcesUnknown: sourcesUnknown,
		Reread: s.plan.Read.Again, AccountMissing: s.accountMissing(), Causes: causes, Schedule: s.plan.Schedule, RetryAt: plan.Earliest(s.plan.Retries()).At,
		ComparesObjects: p.backstop().On(), HasSuspects: s.plan.Objects.Suspects(),
	})
	if p.plan.Scope.All {
		s.plan.Schedule.BeginAll()
	}
	if p.plan.Scope.Resync {
		s.plan.Schedule.Resync = p.plan.Now.Add(wait.Jitter(vr.ResyncInterval(r.Options.DefaultInterval), plan.ResyncJitter))
	}
	return p
}

// run connects, reads the manifest, plans, applies, prunes and concludes.
func (p *pass) run(ctx context.Context) (reconcile.Result, error) {
	p.listTransferred()
	if why := p.connect(ctx); why != nil {
		return p.refuse(ctx, *why)
	}
	if p.state.accountMissing() { // it is allowed now
		p.state.plan.Read.Stalled, p.state.plan.Read.Again = nil, true
	}
	p.obstacles.Waiting = p.awaits(ctx)
	revision, readable := p.state.manifest.revision, p.state.read.failure == nil && p.state.plan.Read.Stalled == nil
	why, unread := p.read(ctx)
	if p.state.manifest.revision != revision || why == nil && !readable {
		p.plan.Revised = true
		p.state.plan.RetryNow()
	}
	switch {
	case why == nil:
	case unread && p.isUsable():
		p.obstacles.Source = why // what was read last is used until it can be read
	case why.Reason == v1alpha1.ReasonSourceUnavailable:
		return p.block(ctx, *why)
	default:
		return p.stall(ctx, *why)
	}
	defer p.reconciler.keepBodies(p.state)
	p.relabel(ctx)
	p.load()
	p.watch(ctx)
	p.recoverInventory(ctx)
	p.state.lane.yield()
	causes := p.plan.SelectObjects(ctx, p.plan.Scope.Changed && p.obstacles.Source == nil && p.plan.Revised)
	p.backstop().Compare(ctx, causes)
	p.plan.HoldContended(causes)
	todo, err := p.carryOut(ctx, p.holdBack(p.plan.Suspend(p.plan.WebhooksLast(p.plan.Plan(ctx, causes)))))
	switch {
	case err != nil:
		p.requeueCauses()
		return reconcile.Result{}, err
	case p.state.attempt.interrupted.Load():
		p.plan.NoteApplied(todo.Apply)
		return p.interrupted()
	}
	p.recordRevision(ctx)
	applied := slices.ContainsFunc(todo.Apply, func(t plan.Task) bool { return !t.Known.Attempts.LastApply.Before(p.plan.Now) })
	return p.concludeObserved(ctx, todo.Apply, status.Outcome{Synced: applied && p.plan.Scope.All && p.state.plan.Objects.Problems() == 0})
}

// carryOut applies and prunes, unless the reconcile is interrupted, and returns the tasks that are left after the preflight. The objects are reserved until
// its end: causes that the reconcile gives back after it are older than those of the loop of objects.
func (p *pass) carryOut(ctx context.Context, todo plan.Plan) (plan.Plan, error) {
	reserved := p.reserve(ctx, todo.Apply)
	defer func() { p.release(reserved) }()
	todo = p.preflightAll(ctx, todo)
	if err := p.writeAhead(ctx, todo); err != nil {
		return todo, err
	}
	p.applyAll(ctx, todo.Apply)
	if p.state.attempt.interrupted.Load() {
		return todo, nil
	}
	p.recorder().RecordBlocked(todo)
	p.state.lane.yield()
	if todo.Prune = p.plan.KeepUntilApplied(todo.Prune); len(todo.Prune) > 0 {
		todo.Prune = p.plan.RestRemovals(p.plan.SettleRemovals(todo.Prune, p.removalDelay(ctx)))
		p.awaitHeals(todo.Prune)
		p.remover().Prune(ctx, todo.Prune)
		p.watch(ctx)
	}
	return todo, nil
}

// reserve takes the objects of tasks from the loop of objects until release. An edit of an object that was applied before is answered there until
// its task begins; so is the edit that a changed task knows already.
func (p *pass) reserve(ctx context.Context, tasks []plan.Task) []*plan.Object {
	reserved := make([]*plan.Object, len(tasks))
	for i, t := range tasks {
		if reserved[i] = t.Known; !p.plan.Early(ctx, t) {
			t.Known.Turn.Reserve(nil)
			continue
		}
		t.Known.Turn.Reserve(&tasks[i])
		if t.Why == plan.WhyChanged && (t.Cause.Found != nil || t.Cause.Deleted) && !t.Known.Edits.Contention.Contended() {
			p.reconciler.Watching.Trigger.ReturnHeal(trigger.Heal{Owner: p.plan.Settings.Claimant.Owner, Key: t.Object.Key}, t.Cause)
		}
	}
	return reserved
}

// release gives objects back to the loop of objects, which then heals the edits that were made meanwhile. It waits for the loop to end the tasks that have
// not got their turn: the next reconcile has to find their results.
func (p *pass) release(reserved []*plan.Object) {
	p.state.lane.waitLocked(func() bool {
		waits := false
		for _, o := range reserved {
			waits = o.Turn.Withdraw() || waits
		}
		return !waits
	})
	var keys []trigger.ObjectKey
	for _, o := range reserved {
		if o.Turn.Release() && o.Desired != nil {
			keys = append(keys, o.Desired.Key)
		}
	}
	p.reconciler.Watching.Trigger.ResumeHeals(p.plan.Settings.Claimant.Owner, keys)
}

// awaitHeals waits for the heals of objects that are about to be removed: new ones begin only for objects of the manifest.
func (p *pass) awaitHeals(ids []object.Identity) {
	p.state.lane.waitLocked(func() bool {
		return !slices.ContainsFunc(ids, func(id object.Identity) bool { return p.state.plan.Objects.ByID[id].Turn.Healing() })
	})
}

// relabel gives the objects the labels of other shards, if there are any.
func (p *pass) relabel(ctx context.Context) {
	s := p.state
	if slices.Equal(s.plan.Origin.Provenance.Shards, p.shards) {
		return
	}
	for _, o := range s.plan.Objects.Manifest {
		o.Turn.Reserve(nil)
	}
	reserved := slices.Clone(s.plan.Objects.Manifest)
	defer func() { p.release(reserved) }()
	s.lane.waitLocked(func() bool { return s.lane.healing == 0 })
	assignment.Relabel(ctx, p.applier, &s.plan, p.shards)
	s.inventory.loaded = false
}

// requeueCauses returns the causes, so that the next reconcile does the rest.
func (p *pass) requeueCauses() {
	p.plan.Causes.All, p.plan.Causes.Retry = p.plan.Causes.All || p.plan.Scope.All, p.plan.Causes.Retry || p.plan.Revised
	p.state.attempt.unbegun = p.plan.First
	if p.plan.Scope.Resync {
		p.state.plan.Schedule.Resync = time.Time{}
	}
	p.reconciler.Watching.Trigger.RequeueCauses(p.plan.Settings.Claimant.Owner, p.plan.Causes)
}

// interrupted ends a reconcile that was interrupted. The next one does the rest, and reports all.
func (p *pass) interrupted() (reconcile.Result, error) {
	maps.DeleteFunc(p.plan.Causes.Objects, func(key trigger.ObjectKey, cause trigger.Cause) bool { // it is settled
		o := p.state.plan.Objects.At(key)
		return o != nil && !cause.Since.IsZero() && o.Attempts.LastApply.After(cause.Since)
	})
	p.requeueCauses()
	p.requeuePending(p.plan.Scope.All)
	return reconcile.Result{}, nil
}

// requeuePending returns the causes that the status leaves out. all reports whether that
// may be any object.
func (p *pass) requeuePending(all bool) {
	p.reconciler.Watching.Trigger.RequeueCauses(p.plan.Settings.Claimant.Owner, trigger.Causes{
		Objects: p.plan.Findings.PendingDrift, All: all, Health: p.plan.Causes.Health, Others: p.plan.Causes.Others,
	})
}

// recorder returns the Recorder of the VidraResource, which notes the results of tasks.
func (p *pass) recorder() *status.Recorder {
	return &status.Recorder{Plan: p.plan, Applier: p.applier}
}

// backstop returns the Backstop of the VidraResource, which compares its objects with the API server.
func (p *pass) backstop() *backstop.Backstop {
	return &backstop.Backstop{Plan: p.plan, Applier: p.applier, Interval: p.reconciler.Options.BackstopInterval}
}

// remover returns the Remover of the VidraResource.
func (p *pass) remover() *prune.Remover {
	replaced := func() bool { return p.kubeconfigChanged(p.applier.Destination) }
	return &prune.Remover{
		Applier: p.applier, Plan: p.plan, Stale: p.stale, Replaced: replaced, Interrupted: p.state.attempt.interrupted.Load, FormerClient: p.reconciler.Accounts.FormerClient,
	}
}

// stale reads the VidraResource from the API server, as a cache may be behind. It returns the reason against removals from the state in
// the cache: another VidraResource of the name, a later spec, a spec of a backup, a deletion, or labels of another operator.
func (p *pass) stale(ctx context.Context) error {
	now := &v1alpha1.VidraResource{}
	switch err := p.reconciler.Clients.API.Get(ctx, p.plan.Settings.Claimant.Owner, now); {
	case apierrors.IsNotFound(err):
		return errors.New("the VidraResource does not exist any more")
	case err != nil:
		return fmt.Errorf("read the VidraResource: %w", err)
	}
	if !p.reconciler.Assignment.Reconciles(now) { // as the reconcile of one of another installation begins
		assignment.Release(now)
	}
	switch {
	case now.UID != p.plan.VR.UID:
		return errors.New("the VidraResource was deleted, and another one of its name was created")
	case now.Generation != p.plan.VR.Generation, now.DeletionTimestamp.IsZero() != p.plan.VR.DeletionTimestamp.IsZero(), p.reconciler.Assignment.Reconciles(now) != p.reconciler.Assignment.Reconciles(p.plan.VR),
		!p.reconciler.Assignment.Has(now), !follows(p.plan.VR, now):
		return errors.New("the VidraResource has changed since it was read")
	}
	return p.staleSource(ctx)
}

// staleSource reads the sources of the manifest from the API server, as their watches may be behind. It returns the reason against removals from the
// manifest as it was read: a source has changed since, or is unreadable. All objects of a VidraResource that ends leave, and an earlier revision is kept.
func (p *pass) staleSource(ctx context.Context) error {
	vr := p.plan.VR
	if len(source.KeysOf(vr)) == 0 || !vr.DeletionTimestamp.IsZero() || !p.reconciler.Assignment.Reconciles(vr) || p.state.rollsBack(vr) {
		return nil
	}
	as, _, why := p.reconciler.Accounts.ClientOf(ctx, vr, p.reconciler.Clusters.Local)
	if why != nil {
		return errors.New(why.Message)
	}
	for _, key := range source.KeysOf(vr) {
		switch revision, err := p.reconciler.Watching.sources.Kinds.Latest(ctx, as, key); {
		case err != nil:
			return fmt.Errorf("read %s: %w", key, err)
		case revision != p.state.read.sources[key]:
			return fmt.Errorf("%s has changed since it was read", key)
		}
	}
	return nil
}

// mayTake reports whether a VidraResource of the same destination may apply an object, with the rights of its account.
//
// Another installation has rules about accounts of its own. In this one, the Namespace of an account may be created by the same apply.
func (p *pass) mayTake(ctx context.Context, vr *v1alpha1.VidraResource, key trigger.ObjectKey) (bool, error) {
	accounts := p.reconciler.Accounts
	if v1alpha1.InstallationOf(vr) != p.reconciler.Assignment.Installation {
		accounts.Required, accounts.Impersonated = false, nil
	}
	return accounts.MayPatch(ctx, vr, p.applier.Destination, key)
}

// load makes the inventory known to the index, after a restart.
func (p *pass) load() {
	if !p.plan.Settings.Watched {
		return
	}
	p.reconciler.Watching.Index.CountAdditions(p.plan.Settings.Claimant.Owner, p.applier.Settings.Additions.Tools)
	p.reconciler.Watching.Index.CheckHealth(p.plan.Settings.Claimant.Owner, p.plan.Settings.Checks)
	if p.state.inventory.loaded {
		return
	}
	p.state.inventory.loaded = true
	p.state.plan.Objects.ForgetAnswers() // events may just have been switched on
	known := map[trigger.ObjectKey]trigger.Applied{}
	for _, o := range p.state.plan.Objects.Manifest {
		if o.Entry == nil {
			continue
		}
		if applied, ok := plan.AppliedBefore(p.plan.Settings.Claimant.Manager, o.Entry); ok {
			known[o.Desired.Key] = applied
		}
	}
	p.reconciler.Watching.Index.Load(p.plan.Settings.Claimant.Owner, known)
}

// stall ends a reconcile of a VidraResource that only its author can fix. Objects that
// were applied before are unchanged, and stay in the inventory.
func (p *pass) stall(ctx context.Context, why object.Failure) (reconcile.Result, error) {
	p.state.plan.Read.Generation, p.state.plan.Read.Stalled = p.plan.VR.Generation, &why
	p.state.plan.Origin.Provenance.Shards = assignment.Unlabelled(p.before.Shards, p.shards, len(p.state.plan.Objects.Inventory()))
	for key, cause := range p.plan.Causes.Objects {
		p.plan.Findings.PendingDrift[key] = trigger.Cause{Unsure: true, Since: cause.Since} // the object need not be kept until then
	}
	if why.Reason != v1alpha1.ReasonServiceAccountRequired { // otherwise it may ask nothing
		p.skipAll(ctx, why)
	}
	return p.finish(ctx, status.Outcome{Obstacles: status.Obstacles{Stalled: &why, Compared: len(p.state.plan.Objects.Manifest) > 0}})
}
