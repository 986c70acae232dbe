package reconcile

import (
	"context"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// selectObjects finds the objects that are not as expected. When every object is looked
// at, what the watches keep is compared, which costs no request; what cannot be
// watched is read when it is time to. again reports that objects that were skipped are compared.
func (p *planner) selectObjects(again bool) map[trigger.ObjectKey]trigger.Cause {
	causes := map[trigger.ObjectKey]trigger.Cause{}
	if p.watched {
		for key, cause := range p.causes.Objects {
			causes[key] = cause
		}
	}
	for key, cause := range p.expectAgain(again) {
		if _, seen := causes[key]; !seen {
			causes[key] = cause
		}
	}
	if !p.scope.all {
		return causes
	}
	unsynced := false
	for _, o := range p.state.manifest {
		d := o.desired
		if _, seen := causes[d.key]; seen || o.drift != nil && !o.drift.unobserved && p.watched {
			continue // events tell what becomes of it
		}
		obj, found, synced := p.Watches.Get(watchKey(d.key), d.key.Namespace, d.key.Name)
		unsynced = unsynced || p.watched && !synced
		var suspect bool
		switch {
		case p.watched && p.outdated(o) && !p.recomputes():
		case p.watched && synced:
			suspect = !p.Index.AsExpected(p.owner, d.key, obj, found) || o.in(v1alpha1.ObjectDrifted)
		case p.watched && p.first: // the watches are about to tell
		default:
			suspect = p.scope.resync
		}
		if suspect {
			causes[d.key] = trigger.Cause{Unsure: true}
		}
	}
	p.state.unjudged = p.state.unjudged && unsynced
	return causes
}

// outdated reports whether the digest of an object was computed by another version
// of Vidra, so that nothing can be said of it before it is applied again.
func (p *planner) outdated(o *objectState) bool {
	if !o.in(v1alpha1.ObjectApplied) || o.entry.Digest == "" {
		return false
	}
	_, err := ownership.ParseDigest(o.entry.Digest)
	return err != nil
}

// recomputes reports whether it is time to apply an object for the sake of its
// digest. After a new version of Vidra has started, that is to be done for all.
func (p *planner) recomputes() bool {
	now := p.recompute.TryAccept()
	p.digestsOutdated = p.digestsOutdated || !now
	return now
}

// plan decides what to do, and forgets failures of what is no longer wanted.
func (p *planner) plan(ctx context.Context, causes map[trigger.ObjectKey]trigger.Cause) plan {
	s := p.state
	if p.scope.all { // suspend says it again
		for o := range s.all() {
			if o.problem != nil && o.problem.reason == v1alpha1.ReasonSuspended {
				o.problem = nil
			}
		}
	}
	todo := makePlan(planInput{
		manifest: s.manifest, others: s.others, unresolved: s.unresolved, causes: causes, all: p.scope.all,
		preconditions: func(o *objectState) preconditions { return p.preconditions(ctx, o) },
	})
	if p.scope.all {
		waiting := s.waitingKinds()
		for _, o := range s.others {
			if _, waits := waiting[o.id]; o.entry == nil && !waits {
				o.problem = nil
			}
		}
	}
	return todo
}

// preconditions is what is known of an object before a plan is made.
func (p *planner) preconditions(ctx context.Context, o *objectState) preconditions {
	d := o.desired
	_, _, synced := p.Watches.Get(watchKey(d.key), d.key.Namespace, d.key.Name)
	return preconditions{
		changed:     p.changedSince(o.entry, d),
		unobserved:  !synced,
		terminating: p.terminating(ctx, d.id.namespace),
		gone:        p.state.watches[watchKey(d.key)].State == watchregistry.Pending,
		held:        o.problem != nil && !p.scope.retry,
		contended:   p.held(o),
		skip:        p.skipReason(o),
		seen:        p.skippedBefore[o.id].seen(o.entry),
	}
}

// changedSince reports whether an object of the manifest is, or may be, another one than
// was applied last.
func (p *planner) changedSince(entry *v1alpha1.ManagedResourceStatus, d *desired) bool {
	if entry == nil || entry.Configuration == "" { // an older Vidra applied it
		return p.state.status.ObservedGeneration != p.vr.Generation
	}
	return entry.Configuration != d.configuration
}

// suspend takes from a plan what is not done while the VidraResource is
// suspended: everything but to report what was changed.
func (p *planner) suspend(todo plan) plan {
	if !p.vr.Spec.Suspend {
		return todo
	}
	var reported []task
	for _, t := range todo.apply {
		if t.why == whyDrift {
			reported = append(reported, t)
			continue
		}
		p.waits = true
		t.known.fail(v1alpha1.ReasonSuspended, "is not applied while spec.suspend is true")
		if t.why == whyChanged && (t.cause.Deleted || t.cause.Found != nil) {
			t.why, t.skip = whyDrift, p.skipReason(t.known)
			reported = append(reported, t)
		}
	}
	for _, id := range todo.prune {
		p.waits = true
		p.state.objects[id].fail(v1alpha1.ReasonSuspended, "is not removed while spec.suspend is true")
	}
	todo.apply, todo.prune = reported, nil
	return todo
}
