package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/apply"
	"github.com/vidra-operator/vidra/pkg/reconcile/limits"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/tracing"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// healWorkers are more than the gate has slots: one is always free to find out that a heal has to wait.
const healWorkers = limits.GateSlots + 16

// Converge reverts a change of one applied object, or does its task of a reconcile before the turn of the task. It waits for the lock of the lane.
// Without a slot of the gate, during an apply of the object by a reconcile, and before its share of the budget if it is contended, it returns, and is called again. More
// than a revert, such as a new object, a policy that has the change stay, or a failure, is handed over to a reconcile. docs/architecture.md lists
// the waits and the handed-over edits. It returns no error, as the controller has a backoff of its own.
func (r *Reconciler) Converge(ctx context.Context, h trigger.Heal) (reconcile.Result, error) {
	if !r.states.begin() {
		return reconcile.Result{}, nil
	}
	defer r.states.running.Done()
	if !r.bounds.gate.Enter(h) {
		return reconcile.Result{}, nil
	}
	answer := limits.NotAsked
	defer func() { r.bounds.gate.Leave(h, answer) }()
	ctx, left, done := r.Assignment.Healing(ctx, h.Owner)
	defer done()
	one := r.beginHeal(ctx, h, left)
	if one == nil {
		return reconcile.Result{}, nil
	}
	ended := false
	defer func() { // it has panicked otherwise
		if !ended {
			r.abandonHeal(h, one)
		}
	}()
	answer = limits.Unanswered
	traced, endSpan := tracing.Root(ctx, "heal object", h.Owner)
	tracing.Causes(traced, map[trigger.ObjectKey]trigger.Cause{h.Key: one.task.Cause})
	result := one.pass.applier.Apply(traced, one.task)
	endSpan("", result.Err)
	answer = answerOf(result.Err)
	ended = true
	r.endHeal(ctx, h, one, result)
	return reconcile.Result{}, nil
}

// healing is the heal of one object. Its pass has only the parts that such a heal needs.
type healing struct {
	pass   *pass
	object *plan.Object
	// due is the task of a reconcile that was to begin when the heal began; nil otherwise.
	due  *plan.Task
	task plan.Task
}

// leftShard reads the VidraResource from the API server, as a cache may be behind, and reports whether another shard reconciles it.
func (p *pass) leftShard(ctx context.Context) (bool, error) {
	now := &v1alpha1.VidraResource{}
	if err := p.reconciler.Clients.API.Get(ctx, p.plan.Settings.Claimant.Owner, now); err != nil {
		return false, fmt.Errorf("read VidraResource %s, which another shard may reconcile: %w", p.plan.Settings.Claimant.Owner.Name, err)
	}
	return !p.reconciler.Assignment.Has(now), nil
}

// beginHeal takes the cause of a change, and the object from reconciles of the VidraResource. It returns nil if the
// object is not healed here: its drift has ended, or a reconcile is to apply the object first, or gets the cause.
func (r *Reconciler) beginHeal(ctx context.Context, h trigger.Heal, left bool) *healing {
	vr, s := &v1alpha1.VidraResource{}, r.states.of(h.Owner)
	known := r.Clients.Client.Get(ctx, h.Owner, vr) == nil && s != nil && !left
	var o *plan.Object
	if known {
		s.lane.mu.Lock()
		defer s.lane.mu.Unlock()
		if o = s.plan.Objects.At(h.Key); o != nil && o.Turn.Taken() {
			return nil // release and endHeal resume it
		}
	}
	cause, found := r.Watching.Trigger.TakeHeal(h)
	if !found {
		o.LeaveLoop()
		return nil
	}
	if known && r.isCurrent(h.Owner, s, vr) {
		p := r.passOn(h.Owner, vr, s, v1alpha1.ShardsOf(vr, r.Assignment.Shard))
		if p.connectAgain(ctx) && p.applier.Destination.Name() == h.Key.Cluster {
			delayed := o.Delays()
			task, due, ok := p.plan.HealTask(ctx, o, cause)
			if !delayed && o.Delays() { // Ready does not hold
				r.Watching.Trigger.Report(h.Owner, 0)
			}
			switch {
			case ok:
				s.lane.beginLocked(o)
				return &healing{p, o, o.Turn.Due(), task}
			case !due.IsZero():
				r.Watching.Trigger.DelayHeal(h, cause, due)
				return nil
			}
		}
	}
	o.LeaveLoop()
	r.Watching.Trigger.HandOver(h, cause)
	return nil
}

// isCurrent reports whether a state belongs to a VidraResource as the cache has it: a reconcile has read it and its
// sources. The lane must be locked.
func (r *Reconciler) isCurrent(owner trigger.Owner, s *ownerState, vr *v1alpha1.VidraResource) bool {
	_, held := r.Assignment.Installation.HeldByAnother(vr)
	if s.lane.closed || held || !r.Assignment.Reconciles(vr) || !vr.DeletionTimestamp.IsZero() || !r.states.uses(owner, s, vr) {
		return false
	}
	if s.plan.Read.Generation != vr.Generation || s.plan.Read.Stalled != nil || s.manifest.bodies.dropped || s.attempt.unbegun || !vr.WatchesEvents() || !slices.Equal(s.plan.Origin.Provenance.Shards, v1alpha1.ShardsOf(vr, r.Assignment.Shard)) {
		return false
	}
	changed, _ := s.sourcesChanged(vr, r.revisionsOf(vr))
	return !changed
}

// connectAgain is connect for a VidraResource that was connected before. It changes nothing. It reports whether
// requests can be sent to the same destination with the same rights.
func (p *pass) connectAgain(ctx context.Context) bool {
	destination, scope, err := p.reconciler.Clusters.Find(p.plan.Settings.Claimant.Owner, p.plan.VR.Spec.Destination.Server)
	if err != nil || !scope.Same(p.state.manifest.scope) || !access.Usable(destination) || access.OutOfScope(scope, p.plan.VR) != nil || p.kubeconfigChanged(destination) {
		return false
	}
	client, user, why := p.reconciler.Accounts.ClientOf(ctx, p.plan.VR, destination)
	p.applier.Destination, p.applier.Settings.Allowed, p.applier.Client, p.applier.User = destination, scope, client, user
	return why == nil
}

// abandonHeal ends a heal with an unknown result.
func (r *Reconciler) abandonHeal(h trigger.Heal, one *healing) {
	one.task.Cause.Unanswered = true
	one.pass.state.lane.endWith(one, one.task.Cause)
	r.Watching.Trigger.HandOver(h, one.task.Cause)
}

// endHeal records the result of a heal. Its Events leave at once. The status follows with a reconcile: at once if it shows
// more than one more heal, and otherwise when it counts heals.
func (r *Reconciler) endHeal(ctx context.Context, h trigger.Heal, one *healing, result apply.Result) {
	p := one.pass
	s := p.state
	// Each failure may have that cause.
	unknown := result.Err != nil && (ctx.Err() != nil || !access.Usable(p.applier.Destination))
	early := result.Err != nil && one.task.Why != plan.WhyDrift // it may lack the objects that its task waits for
	if unknown || early || result.End == apply.Replaced {       // the status has to say so before an object is replaced
		cause := result.Task.Cause
		cause.Unanswered = cause.Unanswered || result.Err != nil && object.Unanswered(result.Err)
		s.lane.endWith(one, cause)
		r.Watching.Trigger.HandOver(h, cause)
		return
	}
	var reported v1alpha1.VidraResourceStatus
	var reverts []events.Change
	var report bool
	var after time.Duration
	func() { // a panic leaves the lane open
		s.lane.mu.Lock()
		defer s.lane.mu.Unlock()
		defer s.lane.endLocked(one.object)
		if one.due != nil && result.Err == nil { // the cause of the task is reverted
			one.due.Cause = trigger.Cause{Unsure: true}
		}
		reverts, report, after = p.recordHeal(one, result)
		reported = s.plan.Status
	}()
	r.record(h.Owner, object.ReferenceToOwner(p.plan.VR), reported, reported, reverts)
	if report {
		r.Watching.Trigger.Report(h.Owner, after)
	}
	r.Watching.Trigger.ResumeHeals(h.Owner, []trigger.ObjectKey{h.Key})
}

// recordHeal records the result of a heal in the state, and returns the reverts, whose Events wait for no status, and whether
// and when a reconcile has to report the rest. The lane must be locked.
func (p *pass) recordHeal(one *healing, result apply.Result) (reverts []events.Change, report bool, after time.Duration) {
	s, o := p.state, one.object
	p.plan.Now = time.Now()
	if o.Desired == nil || o.Entry == nil { // it has left the manifest meanwhile, and is not removed yet
		left := *o
		left.Desired, left.Entry = one.task.Object, cmp.Or(o.Entry, one.task.Known.Entry)
		o = &left
	} else {
		entry := *o.Entry // a reconcile may be reading the other one
		o.Entry = &entry
	}
	before, noted := *one.task.Known, len(s.plan.Reports.Events)
	result.Task.Known = o
	p.recorder().RecordResult(result)
	if len(p.plan.Findings.PendingDrift) > 0 { // it is tried again by a reconcile
		o.Attempts.Retry.Failed(p.plan.Now, false)
		p.reconciler.Watching.Trigger.RequeueCauses(p.plan.Settings.Claimant.Owner, trigger.Causes{Objects: p.plan.Findings.PendingDrift})
	}
	rest := s.plan.Reports.Events[:noted:noted]
	for _, change := range s.plan.Reports.Events[noted:] {
		switch change.Action {
		case events.Restored, events.Recreated, events.Relabelled:
			reverts = append(reverts, change)
		default:
			rest = append(rest, change)
		}
	}
	s.plan.Reports.Events = rest
	now := len(rest) > noted || len(p.plan.Findings.PendingDrift) > 0 || s.plan.Read.Again || o.Problem != nil || o.Edits.Drift != nil || o.Entry == nil ||
		!equality.Semantic.DeepEqual(before.Entry, o.Entry) || o.Edits.Additions != before.Edits.Additions ||
		!slices.Equal(o.Remarks.Warnings, before.Remarks.Warnings) || !slices.Equal(o.Remarks.Altered.Texts, before.Remarks.Altered.Texts)
	switch {
	case now:
		return reverts, true, 0
	case s.plan.Schedule.Flush.IsZero():
		return reverts, false, 0
	}
	return reverts, true, max(time.Until(s.plan.Schedule.Flush), time.Millisecond)
}
