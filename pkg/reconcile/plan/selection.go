package plan

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/policy"
	"github.com/vidra-operator/vidra/pkg/reconcile/tracing"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// SelectObjects finds the objects that differ from the expectation. When every object is
// considered, the objects in the stores of the watches are compared, which costs no request; unwatchable
// objects are read when that is due. again reports that objects that were skipped are compared. Objects that the
// loop of objects heals are left out.
func (p *Planner) SelectObjects(ctx context.Context, again bool) map[trigger.ObjectKey]trigger.Cause {
	var healed map[trigger.ObjectKey]bool
	if p.Settings.Watched && p.Scope.All {
		healed = p.takeHeals(ctx)
	}
	causes := p.expectAgain(again)
	if p.Settings.Watched {
		maps.Copy(causes, p.Causes.Objects)
	}
	if !p.Scope.All {
		return causes
	}
	unsynced := false
	for _, o := range p.State.Objects.Manifest {
		d := o.Desired
		heals, unjudged := o.Turn.Healing() || healed[d.Key], p.State.Inherited.Unjudged
		obj, found, synced := p.stored(d.Key)
		left := o.Edits.Drift != nil && !o.Edits.Drift.Unobserved && p.Settings.Watched
		unlabelled := left && !o.Edits.Drift.Deleted && synced && !found // it has no events
		again := unlabelled && p.Scope.Resync
		if _, seen := causes[d.Key]; seen || heals && !unjudged || left && !again {
			continue
		}
		unsynced = unsynced || p.Settings.Watched && !synced
		if synced && !found && p.Settings.Watched && o.absenceExpected(p.Scope.Resync) {
			continue
		}
		var suspect bool
		switch {
		case p.Settings.Watched && p.outdated(o) && !p.recomputes():
		case p.Settings.Watched && synced:
			asExpected := p.Env.Index.AsExpected(p.Settings.Claimant.Owner, d.Key, obj, found)
			suspect = !asExpected || o.In(v1alpha1.ObjectDrifted) || heals // a heal may have its additions still to record, which the status would lose
		case p.Settings.Watched && p.First: // the watches are about to report it
		default:
			suspect = p.Scope.Resync
		}
		if suspect {
			causes[d.Key] = trigger.Cause{Unsure: true}
		}
	}
	p.State.Inherited.Unjudged = p.State.Inherited.Unjudged && unsynced
	return causes
}

// outdated reports whether the digest of an object was computed by another version
// of Vidra, so that a report about it has to wait until it is applied again.
func (p *Planner) outdated(o *Object) bool {
	if !o.In(v1alpha1.ObjectApplied) || o.Entry.Digest == "" {
		return false
	}
	_, err := ownership.ParseDigest(o.Entry.Digest)
	return err != nil
}

// recomputes reports whether it is time to apply an object for the sake of its
// digest. After a new version of Vidra has started, that is to be done for all.
func (p *Planner) recomputes() bool {
	now := p.Env.Recompute.TryAccept()
	if !now {
		p.State.Schedule.digests = p.Now.Add(time.Second)
	}
	return now
}

// Plan decides about the work, and forgets failures of unwanted objects.
func (p *Planner) Plan(ctx context.Context, causes map[trigger.ObjectKey]trigger.Cause) Plan {
	tracing.Causes(ctx, causes)
	s := p.State
	if p.Scope.All { // Suspend and HoldBack report it again
		for o := range s.Objects.All() {
			if o.Postponed() {
				o.EndProblem()
			}
		}
	}
	todo := Make(Input{
		objects: &s.Objects, causes: causes, all: p.Scope.All, synced: s.Status.LastSyncTime,
		preconditions: func(o *Object) preconditions { return p.preconditions(ctx, o, causes[o.Desired.Key]) },
	})
	if p.Scope.All {
		waiting := s.Objects.waitingKinds()
		for _, o := range s.Objects.Others {
			if _, waits := waiting[o.ID]; o.Entry == nil && !waits {
				o.EndProblem()
			}
		}
	}
	return todo
}

// preconditions are the facts about an object before a plan.
func (p *Planner) preconditions(ctx context.Context, o *Object, cause trigger.Cause) preconditions {
	d := o.Desired
	kept, _, synced := p.stored(d.Key)
	return preconditions{
		changed:     (!d.Lifetime.Apply.Leaves() || o.In(v1alpha1.ObjectCompleted)) && p.changedSince(o.Entry, d),
		unobserved:  !synced,
		coOwned:     trigger.CoOwned(kept),
		terminating: p.Terminating(ctx, d.ID.Namespace),
		gone:        p.State.Watching.Watches[p.Settings.WatchKey(d.Key)].State == watchregistry.Pending,
		held:        p.Waits(o),
		contended:   p.held(o),
		completes:   o.Completes(cause),
		decision:    p.decide(o),
		seen:        p.Findings.SkippedBefore[o.ID].seen(o.Entry),
	}
}

// changedSince reports whether an object of the manifest is, or may be, another one than
// was applied last.
func (p *Planner) changedSince(entry *v1alpha1.ManagedResourceStatus, d *desired.Object) bool {
	if entry == nil || entry.Configuration == "" { // an older Vidra applied it, or with another key of digests
		unapplied := entry != nil && (entry.State == v1alpha1.ObjectFailed || entry.State == v1alpha1.ObjectPending)
		return unapplied || p.State.Status.ObservedGeneration != p.VR.Generation
	}
	return entry.Configuration != d.Configuration
}

// NoteUnchanged notes the configurations of objects whose former ones fail to open, as without the key of digests. A later spec would count as a change of
// each of these objects: a completed Job would run again, and an edit that is not reverted would be overwritten.
func (p *Planner) NoteUnchanged() {
	for _, o := range p.State.Objects.Manifest {
		if o.Entry != nil && o.Entry.UID != "" && o.Entry.Configuration == "" && !p.changedSince(o.Entry, o.Desired) {
			o.Entry.Configuration = o.Desired.Configuration
		}
	}
}

// waitReasons are the reasons of problems that Suspend and HoldBack report.
var waitReasons = []string{v1alpha1.ReasonSuspended, v1alpha1.ReasonDependencyNotReady, v1alpha1.ReasonRevisionHeld}

// postpone notes that a newer manifest of the object waits. The report of a difference that another writer made stays.
func (o *Object) postpone(reason, message string) {
	if o.Edits.Drift == nil || !o.In(v1alpha1.ObjectDrifted) {
		o.Await(reason, message)
	}
}

// Postponed reports whether a newer manifest of the object waits.
func (o *Object) Postponed() bool {
	return o.Problem != nil && slices.Contains(waitReasons, o.Problem.Reason)
}

// comparesWaiting reports whether an object whose newer manifest waits is compared: it was changed, now or before.
func (p *Planner) comparesWaiting(t Task) bool {
	return t.Why == WhyChanged && (t.Cause.Deleted || t.Cause.Found != nil || p.Findings.SkippedBefore[t.Known.ID] != nil)
}

// HoldBack takes from a plan the work that waits for a reason: everything but the reverts of objects whose configuration is applied. It reports
// whether anything waits. An object whose applied configuration fails to open, as without the key of digests, may have another one in a newer manifest of
// sources, or in the spec instead of an earlier revision.
func (p *Planner) HoldBack(todo Plan, why object.Failure) (_ Plan, waits bool) {
	elsewhere := len(p.VR.Spec.ManifestFrom) > 0 || p.VR.RevisionTo() != 0
	waiting := func(t Task) bool {
		return t.Why != WhyDrift && t.Why != WhyRetry || elsewhere && t.Known.Entry.Configuration == ""
	}
	todo.Apply = slices.DeleteFunc(todo.Apply, func(t Task) bool { return waiting(t) && t.Known.Seen.Foreign }) // there is nothing to apply
	return p.withhold(todo, why.Reason, "yet", waiting, policy.Leave(policy.Dependency, "a newer manifest of it waits ("+why.Reason+")", time.Time{}))
}

// Suspend takes from a plan the work that stops while the VidraResource is
// suspended: everything but the report of changes.
func (p *Planner) Suspend(todo Plan) Plan {
	if p.VR.Spec.Suspend {
		todo, _ = p.withhold(todo, v1alpha1.ReasonSuspended, "while spec.suspend is true", func(t Task) bool { return t.Why != WhyDrift }, policy.OfSuspend(p.VR))
	}
	return todo
}

// withhold takes the waiting tasks and all removals from a plan, and sets their problems. Changed objects among them are compared, with the
// decision that leaves them. It reports whether anything waits.
func (p *Planner) withhold(todo Plan, reason, until string, waiting func(Task) bool, leaves policy.Decision) (_ Plan, waits bool) {
	var now []Task
	for _, t := range todo.Apply {
		if !waiting(t) {
			now = append(now, t)
			continue
		}
		waits = true
		t.Known.postpone(reason, "is not applied "+until)
		if p.comparesWaiting(t) {
			t.Why, t.Decision = WhyDrift, leaves
			now = append(now, t)
		}
	}
	for _, id := range todo.Prune {
		waits = true
		p.State.Objects.ByID[id].Await(reason, "is not removed "+until)
	}
	todo.Apply, todo.Prune = now, nil
	p.Findings.Waits = p.Findings.Waits || waits
	return todo, waits
}
