package reconcile

import (
	"context"
	"maps"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// look finds the objects that are not as expected. When every object is looked
// at, what the watches keep is compared, which costs no request; what cannot be
// watched is looked at itself when it is time to.
func (p *pass) look() map[trigger.ObjectKey]trigger.Cause {
	causes := map[trigger.ObjectKey]trigger.Cause{}
	if p.applier.watched {
		for key, cause := range p.causes.Objects {
			causes[key] = cause
		}
	}
	for key, cause := range p.expectAgain(p.changed) {
		if _, seen := causes[key]; !seen {
			causes[key] = cause
		}
	}
	if !p.all {
		return causes
	}
	unsynced := false
	for _, d := range p.session.objects {
		_, seen := causes[d.key]
		if left, is := p.session.drifts[d.id]; seen || is && !left.unobserved && p.applier.watched {
			continue // events tell what becomes of it
		}
		obj, found, synced := p.Watches.Get(watchKey(d.key), d.key.Namespace, d.key.Name)
		unsynced = unsynced || p.applier.watched && !synced
		var suspect bool
		switch {
		case p.applier.watched && p.outdated(d) && !p.recomputes():
		case p.applier.watched && synced:
			entry := p.session.inventory[d.id]
			suspect = !p.Index.AsExpected(p.owner, d.key, obj, found) || entry != nil && entry.State == v1alpha1.ObjectDrifted
		case p.applier.watched && p.first: // the watches are about to tell
		default:
			suspect = p.resync
		}
		if suspect {
			causes[d.key] = trigger.Cause{Unsure: true}
		}
	}
	p.session.unjudged = p.session.unjudged && unsynced
	return causes
}

// outdated says whether the digest of an object was computed by another version
// of Vidra, so that nothing can be said of it before it is applied again.
func (p *pass) outdated(d *desired) bool {
	entry := p.session.inventory[d.id]
	if entry == nil || entry.State != v1alpha1.ObjectApplied || entry.Digest == "" {
		return false
	}
	_, err := ownership.ParseDigest(entry.Digest)
	return err != nil
}

// recomputes says whether it is time to apply an object for the sake of its
// digest. After a new version of Vidra has started, that is to be done for all.
func (p *pass) recomputes() bool {
	now := p.recompute.TryAccept()
	p.outdatedWait = p.outdatedWait || !now
	return now
}

// plan decides what to do, and forgets failures of what is no longer wanted.
func (p *pass) plan(ctx context.Context, causes map[trigger.ObjectKey]trigger.Cause) plan {
	s := p.session
	if p.all { // suspend says it again
		maps.DeleteFunc(s.failures, func(_ identity, why failure) bool { return why.reason == v1alpha1.ReasonSuspended })
	}
	todo := makePlan(planInput{
		objects: s.objects, unresolved: s.unresolved, inventory: s.inventory, causes: causes, all: p.all,
		prospect: func(d *desired) prospect { return p.prospect(ctx, d) },
	})
	if p.all {
		_, order := s.entries()
		wanted := make(map[identity]struct{}, len(order))
		for _, id := range order {
			wanted[id] = struct{}{}
		}
		for id := range s.failures {
			if _, still := wanted[id]; !still {
				delete(s.failures, id)
			}
		}
	}
	return todo
}

// prospect is what is known of an object before a plan is made.
func (p *pass) prospect(ctx context.Context, d *desired) prospect {
	s := p.session
	_, failed := s.failures[d.id]
	_, _, synced := p.Watches.Get(watchKey(d.key), d.key.Namespace, d.key.Name)
	return prospect{
		changed:     p.changedSince(s.inventory[d.id], d),
		unobserved:  !synced,
		terminating: p.terminating(ctx, d.id.namespace),
		gone:        s.watches[watchKey(d.key)].State == watchregistry.Pending,
		held:        failed && !p.mayRetry,
		contended:   p.held(d.id),
		leave:       p.leaves(d),
		seen:        p.wereLeft[d.id].seen(s.inventory[d.id]),
	}
}

// changedSince says whether an object of the manifest is, or may be, another one than
// was applied last.
func (p *pass) changedSince(entry *v1alpha1.ManagedResourceStatus, d *desired) bool {
	if entry == nil || entry.Configuration == "" { // an older Vidra applied it
		return p.session.status.ObservedGeneration != p.vr.Generation
	}
	return entry.Configuration != d.configuration
}

// suspend takes from a plan what is not done while the VidraResource is
// suspended: everything but to report what was changed.
func (p *pass) suspend(todo plan) plan {
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
		p.session.failures[t.id] = failure{v1alpha1.ReasonSuspended, "is not applied while spec.suspend is true"}
		if t.why == whyChanged && (t.cause.Deleted || t.cause.Found != nil) {
			t.why, t.leave = whyDrift, p.leaves(t.desired)
			reported = append(reported, t)
		}
	}
	for _, id := range todo.prune {
		p.waits = true
		p.session.failures[id] = failure{v1alpha1.ReasonSuspended, "is not removed while spec.suspend is true"}
	}
	todo.apply, todo.prune = reported, nil
	return todo
}
