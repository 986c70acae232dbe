package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// pass is one look at one VidraResource.
type pass struct {
	*Reconciler
	owner   trigger.Owner
	vr      *v1alpha1.VidraResource
	state   *ownerState
	applier *applier
	// before is the status at the beginning.
	before v1alpha1.VidraResourceStatus
	now    time.Time

	// causes were taken from the trigger; unsolved ones are given back.
	causes   trigger.Causes
	unsolved map[trigger.ObjectKey]trigger.Cause
	// scope is what this reconcile does.
	scope scope
	// first says that this process looks at the objects for the first time.
	first bool
	// going says of namespaces whether they are being deleted.
	going map[string]bool
	// kubeconfig is for what the kubeconfig of another cluster may be used.
	kubeconfig cluster.Scope
	// outdatedWait says that digests of another version are still to be replaced.
	outdatedWait bool
	// waits says that something is not done while the VidraResource is suspended.
	waits bool
	// unread says that the manifest could not be read; source is why, if the pass goes on
	// with what was read before.
	unread bool
	source *failure
	// wereLeft are the objects that were left as somebody changed them until this pass.
	wereLeft map[identity]*drift
	// healthWaits says that what is not healthy has changed, and is told later.
	healthWaits bool
	// foreign is the status as another client wrote it, which is to be put right; nil if
	// none did.
	foreign *v1alpha1.VidraResourceStatus
	// heldUntil is when the first break-glass ends that keeps an object from being removed.
	heldUntil time.Time
	// starting says that it is not known yet whether the destination can be reached,
	// and soon will be.
	starting bool
}

func (r *Reconciler) newPass(owner trigger.Owner, vr *v1alpha1.VidraResource, causes trigger.Causes, keys *digestKeys) *pass {
	s, first := r.ownerState(owner, vr, keys)
	p := &pass{
		Reconciler: r, owner: owner, vr: vr, state: s, before: s.status, first: first || s.unbegun,
		now: time.Now(), causes: causes, unsolved: map[trigger.ObjectKey]trigger.Cause{}, going: map[string]bool{},
		wereLeft: map[identity]*drift{},
		applier: &applier{
			destination: r.Local, trigger: r.Trigger, index: r.Index, owner: owner,
			adopt: vr.AdoptPolicy(), orphans: vr.Orphans(), force: vr.Spec.Force,
			maxBreakGlass: vr.MaxBreakGlass(r.MaxBreakGlass),
			glassRoom:     sync.OnceValue(func() *breakGlassRoom { return newBreakGlassRoom(s.inventory()) }),
			installation:  r.Installation,
			manager:       r.Installation.FieldManager(vr.Name), watched: vr.WatchesEvents(),
			vidraResources: r.Client, additions: r.additionsOf(vr),
		},
	}
	s.unbegun = false
	if first {
		r.Trigger.EndContentions(owner)
	}
	if r.hurries(owner) || s.attempted != vr.Generation {
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
	defer p.heavy.keep(p.state)
	if why := p.objectsOutOfScope(); why != nil {
		return p.block(ctx, *why)
	}
	p.load()
	p.watch(ctx)
	p.recoverInventory()
	causes := p.look()
	p.backstop(ctx, causes)
	p.holdContended(causes)
	todo := p.meetAll(ctx, p.suspend(p.webhooksLast(p.plan(ctx, causes))))
	if err := p.writeAhead(ctx, todo); err != nil {
		p.giveBack()
		return reconcile.Result{}, err
	}
	p.applyAll(ctx, todo.apply)
	p.note(todo)
	todo.prune = p.keepUntilApplied(todo.prune)
	p.pruneAll(ctx, todo.prune)
	if len(todo.prune) > 0 {
		p.watch(ctx)
	}
	p.witness(ctx, todo.apply)
	return p.conclude(ctx, outcome{synced: len(todo.apply) > 0 && p.scope.all && p.state.problems() == 0})
}

// read makes the state hold what the manifest wants, if it does not. It
// returns why only the author can help.
func (p *pass) read(ctx context.Context) *failure {
	s := p.state
	if s.generation == p.vr.Generation && !p.scope.sources && !s.dropped && (s.stalled != nil || !p.scope.all || len(s.unresolved) == 0 && !s.reread) {
		return s.stalled
	}
	p.unread = true
	if s.unread != nil && s.generation == p.vr.Generation && !p.scope.retry {
		return s.unread
	}
	parts, versions, why := p.gather(ctx)
	if why != nil {
		s.unread = why
		return why
	}
	old := make([]*desired, 0, len(s.manifest))
	for _, o := range s.manifest {
		old = append(old, o.desired)
	}
	defer func() {
		if isLocal(p.vr.Spec.Destination.Server) {
			p.residents.set(p.owner, s.manifest)
		}
	}()
	held, err := p.holders(ctx)
	if err == nil {
		err = p.readParts(ctx, held, parts)
	}
	if err != nil {
		reason := v1alpha1.ReasonManifestInvalid
		if errors.Is(err, errEmpty) {
			reason = v1alpha1.ReasonManifestEmpty
		}
		s.unread = &failure{reason, events.Truncate(err.Error(), maxMessage)}
		return s.unread
	}
	p.unread, s.unread, s.sources = false, nil, versions
	for _, o := range s.manifest {
		if d, policy := o.desired, p.applier.additions.configuration(); policy != "" {
			d.configuration = identify([]byte(d.configuration), []byte(policy))
		}
	}
	if why := p.tooLarge(); why != nil {
		return why
	}
	for _, was := range old {
		// The same object in another version is another watch's.
		if is := s.objects[was.id]; is != nil && is.desired != nil && is.desired.key != was.key {
			p.Index.Forget(p.owner, was.key)
		}
	}
	return nil
}

// giveBack returns the causes, so that the next pass does what this one did not.
func (p *pass) giveBack() {
	p.causes.All = p.causes.All || p.scope.all
	p.Trigger.RequeueCauses(p.owner, p.causes)
}

// giveBackUntold returns what the status could not be told of. all reports whether that may
// be any object.
func (p *pass) giveBackUntold(all bool) {
	p.Trigger.RequeueCauses(p.owner, trigger.Causes{Objects: p.unsolved, All: all, Health: p.causes.Health})
}

// load makes the inventory known to the index, after a restart.
func (p *pass) load() {
	if !p.applier.watched {
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
		if applied, ok := appliedBefore(p.applier.manager, o.entry); ok {
			known[o.desired.key] = applied
		}
	}
	p.Index.Load(p.owner, known)
}

// writeAhead writes the objects that are about to be created into the
// inventory: should Vidra stop in between, they are found again.
func (p *pass) writeAhead(ctx context.Context, todo plan) error {
	var added []*objectState
	for _, t := range todo.apply {
		if t.why == whyNew && t.known.entry == nil {
			t.known.entry = entryOf(t.id, t.gvk)
			added = append(added, t.known)
		}
	}
	if len(added) == 0 {
		return nil
	}
	err := p.writeInventory(ctx)
	if err != nil {
		for _, o := range added {
			o.entry = nil // it is not written, so nothing may be created yet
		}
	}
	return err
}

// writeInventory writes the inventory before the objects are written that it speaks of.
func (p *pass) writeInventory(ctx context.Context) error {
	s := p.state
	status := *s.status.DeepCopy()
	status.ManagedResources, _ = s.entries()
	status.Objects = int32(len(status.ManagedResources)) //nolint:gosec // bounded by the size of a manifest
	status.DeployState = v1alpha1.DeployRunning
	progressing := func(kind string, value metav1.ConditionStatus) {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: kind, Status: value, ObservedGeneration: status.ObservedGeneration,
			Reason: v1alpha1.ReasonProgressing, Message: "Applying the manifest",
		})
	}
	progressing(v1alpha1.ConditionReconciling, metav1.ConditionTrue)
	if problem := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady); problem == nil || problem.Status == metav1.ConditionTrue {
		progressing(v1alpha1.ConditionReady, metav1.ConditionFalse)
	}
	return p.writeStatus(ctx, status)
}

// stall ends a pass over a VidraResource that only its author can mend. What
// was applied before stays as it is, and stays in the inventory.
func (p *pass) stall(ctx context.Context, why failure) (reconcile.Result, error) {
	p.state.generation, p.state.stalled = p.vr.Generation, &why
	for key := range p.causes.Objects {
		p.unsolved[key] = trigger.Cause{Unsure: true} // the object need not be kept until then
	}
	if why.reason != v1alpha1.ReasonServiceAccountRequired { // otherwise it may ask nothing
		p.leaveAll(ctx, why)
	}
	return p.finish(ctx, outcome{stalled: &why, compared: len(p.state.manifest) > 0})
}

// finish writes the status if it changed, then the Events that speak of it.
func (p *pass) finish(ctx context.Context, o outcome) (reconcile.Result, error) {
	s := p.state
	o.generation, o.now = p.vr.Generation, p.now
	o.all = p.scope.all || o.stalled != nil || o.blocked != nil // then that is all there is to say
	o.watched, o.watches = p.applier.watched, s.watches
	p.endContentions()
	if o.stalled == nil && o.blocked == nil && !o.deleting {
		p.checkup()
		o.health = s.health
	}
	o.source, o.unseen = p.source, s.unseenText()
	if o.all { // a heal changes none
		o.warnings = s.warningsIn()
	}
	o.failures, o.contended, o.unmatched = s.withDrifts(), s.contended(), s.unmatched
	o.additions, o.unjudged = p.withAdditions(), s.unjudged && p.applier.additions.policy != v1alpha1.AdditionsKeep
	o.suspended, o.waits, o.wait = p.vr.Spec.Suspend, p.waits, p.vr.Spec.Wait
	if o.entries, o.order = s.entries(); o.blocked != nil || o.stalled != nil && !o.compared {
		o.entries = s.status.ManagedResources
	}
	for _, object := range s.manifest {
		if _, drifted := p.unsolved[object.desired.key]; drifted {
			o.drifted = append(o.drifted, object.id)
		}
	}
	p.awaitRights(o.all)
	s.forgetUnused()
	after := summarize(s.status, o)
	s.schedule.attempted(p.failed(o), o.all, p.now)
	restores, later := p.restores(ctx)
	next := earliest(append(p.wakes(o), wake{later, wakeStatus}))
	if restores {
		p.foreign = p.vr.Status.DeepCopy()
	}
	if restores || s.schedule.flushDue(p.now) || !equality.Semantic.DeepEqual(s.status, after) {
		if err := p.writeStatus(ctx, after); err != nil {
			p.giveBackUntold(o.all)
			if ctx.Err() != nil { // Vidra ends
				s.untold = slices.DeleteFunc(s.untold, isFoundAgain)
			}
			return reconcile.Result{}, err
		}
	}
	p.Trigger.RequeueCauses(p.owner, trigger.Causes{Objects: p.unsolved})
	p.record(p.owner, referenceToOwner(p.vr), p.before, s.status, s.untold)
	s.untold = nil
	ctrllog.FromContext(ctx).V(1).Info("Reconciled", "next", next.at, "why", next.why)
	return p.requeue(next), nil
}

// isFoundAgain says whether a change that is in no status yet is found by whoever looks
// at the objects next, and told then: it is not done again, and not to be told twice.
func isFoundAgain(change events.Change) bool {
	switch change.Action {
	case events.Created, events.Configured, events.Detected, events.Contended, events.Settled, events.Answered:
		return true
	case events.Restored, events.Recreated, events.Relabelled, events.Replaced, events.Pruned, events.Released, events.Orphaned:
	}
	return false
}

// writeStatus writes a status, with the heals that it does not tell of yet.
func (p *pass) writeStatus(ctx context.Context, status v1alpha1.VidraResourceStatus) error {
	s := p.state
	base, changed := p.vr.DeepCopy(), p.vr.DeepCopy()
	base.Status = s.status
	if p.foreign != nil {
		base.Status = *p.foreign
	}
	changed.Status = s.withHeals(status)
	written := changed.Status // Patch overwrites changed with the answer
	patch := client.MergeFrom(base)
	if !s.written {
		// What the cache holds may be older than what an operator before us wrote.
		patch = client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
	}
	p.beginWrite(s)
	err := p.Client.Status().Patch(ctx, changed, patch)
	if err != nil {
		p.endWrite(p.owner, s, "")
	} else {
		p.endWrite(p.owner, s, changed.ResourceVersion)
	}
	if apierrors.IsConflict(err) {
		p.restartState(p.owner)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write the status of VidraResource %s: %w", p.vr.Name, err)
	}
	p.vr.ResourceVersion = changed.ResourceVersion
	s.status, s.heals, s.schedule.flush, s.written = written, 0, time.Time{}, true
	return nil
}
