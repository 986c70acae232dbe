package trigger

import (
	"time"
)

// claim is what one owner expects of one object.
type claim struct {
	key compactKey
	// next is the claim of another owner on the same object.
	next     *claim
	holder   *holder
	expected expectation
	// baseline is what was there before the edits that are not reverted yet; nil if what
	// a watch keeps of the object has it, or nothing does.
	baseline *baseline
	// deferredEvent is the last event that arrived while an apply was under way.
	deferredEvent *observation
	// known is whether expected holds anything: false from before the first
	// apply of an object until it has returned.
	known bool
	// inFlight is whether an apply is under way.
	inFlight bool
	// unreverted is whether the object was left as somebody changed it.
	unreverted bool
	// expectsRemoval is whether the object is to be removed: its deletion is expected.
	expectsRemoval bool
	// alone is whether the last apply left nothing of others behind, and no event has
	// shown so yet: a baseline of nothing.
	alone bool
	// place is where the holder has the claim.
	place int32
}

// expect notes what an apply left behind.
func (c *claim) expect(a Applied) {
	c.holder.manager = a.Manager
	c.expected, c.known, c.unreverted = expect(a), true, a.Unreverted
}

// commit notes what an apply left behind, or a look at an object that is left as it is.
func (c *claim) commit(a Applied) {
	c.expect(a)
	switch {
	case a.Unreverted:
	case a.Others == "":
		c.baseline, c.alone = nil, true
	default:
		latest := &baseline{before: a.Others, latest: a.Others, digest: a.Digest}
		if a.Raced != nil {
			if latest.raced = c.baseline; c.baseline == nil {
				latest.raced = &baseline{before: *a.Raced, latest: *a.Raced}
			}
			latest.raced.raced = nil
		}
		c.baseline, c.alone = latest, false
	}
}

// observation is what an event says of an object.
type observation struct {
	snapshot *Snapshot
	deleted  bool
	// missed says that the deletion itself was not seen: a relist found the
	// object missing, and snapshot is older than that.
	missed bool
	// changed says that the object is in another version than the event before.
	changed bool
	// before is the object as the event before showed it; nil if there was none.
	before *Snapshot
	// skipped are the states of the object between before and snapshot that were not judged,
	// in their order.
	skipped []*Snapshot
	// rewound says that the version is older than that of the event before: etcd was
	// restored from a backup, and the versions that are known mean nothing any more.
	rewound bool
	// healthDelay is how long the owners may wait until they are told of the health of the
	// object; 0 if it is as it was.
	healthDelay time.Duration
}

// Verdict says what an event means for an owner.
type Verdict string

const (
	// VerdictAsExpected says that what is ours is as expected. It is counted as
	// VerdictUnchanged or VerdictForeign.
	VerdictAsExpected Verdict = "AsExpected"
	// VerdictUnchanged says that the object is as it was: a relist, or a start.
	VerdictUnchanged Verdict = "Unchanged"
	// VerdictForeign says that only what is not ours was changed: the status, or
	// fields of others.
	VerdictForeign Verdict = "Foreign"
	// VerdictEcho says that the event is our last apply.
	VerdictEcho Verdict = "Echo"
	// VerdictStale says that the event is older than our last apply.
	VerdictStale Verdict = "Stale"
	// VerdictInFlight says that an apply is under way; the event is judged after it.
	VerdictInFlight Verdict = "InFlight"
	// VerdictTerminating says that the object is being deleted; its end will be
	// another event.
	VerdictTerminating Verdict = "Terminating"
	// VerdictDrift says that something which is ours was changed, removed or taken.
	VerdictDrift Verdict = "Drift"
	// VerdictDeleted says that the object is gone, or lost the label that is watched.
	VerdictDeleted Verdict = "Deleted"
	// VerdictGone says that an object that was to be removed is gone.
	VerdictGone Verdict = "Gone"
	// VerdictUnknown says that no known owner has the object.
	VerdictUnknown Verdict = "Unknown"
)

// judge decides what an observation means for a claim.
func judge(c *claim, o observation) Verdict {
	switch {
	case c.inFlight:
		return VerdictInFlight
	case isEcho(c.expected.version, o):
		return VerdictEcho
	case stale(c.expected.version, o) && c.raced() != nil && !o.deleted && !o.snapshot.has(c.expected.owned):
		return VerdictDrift
	case stale(c.expected.version, o):
		return VerdictStale
	case o.deleted && c.expectsRemoval:
		return VerdictGone
	case o.deleted:
		return VerdictDeleted
	case c.expectsRemoval || o.snapshot.terminating():
		return VerdictTerminating
	case o.snapshot.has(c.expected.owned):
		return VerdictAsExpected
	default:
		return VerdictDrift
	}
}

// judgeEvent judges an event, and what was skipped before it, in their order. What counts is the
// event, or the last edit before it that the last apply has not undone whole.
func (c *claim) judgeEvent(o observation) judgement {
	var raced *judgement
	for _, s := range o.skipped {
		if j := c.judgeState(observation{snapshot: s, before: o.before, changed: true}); j.before != nil {
			raced = &j
		}
		o.before = s
	}
	last := c.judgeState(o)
	if raced != nil && last.verdict != VerdictDrift && !o.deleted {
		return *raced
	}
	return last
}

// judgeState judges one state of an object.
func (c *claim) judgeState(o observation) judgement {
	j := judgement{owner: c.holder.owner, verdict: judge(c, o), observation: o}
	raced := j.verdict == VerdictDrift && stale(c.expected.version, o)
	if raced && !c.raced().edits(o.snapshot, c.expected.manager) {
		j.verdict, raced = VerdictStale, false
	}
	c.updateBaseline(j.verdict, o)
	if raced {
		j.before = new(c.raced().before)
	}
	return j
}

// deferEvent keeps an event until the apply that is under way has ended.
func (c *claim) deferEvent(o observation) {
	if p := c.deferredEvent; p != nil && !p.deleted && !o.deleted {
		skipped := p.skipped
		for _, s := range append([]*Snapshot{p.snapshot}, o.skipped...) {
			skipped = appendSkipped(skipped, s)
		}
		o.before, o.skipped = p.before, skipped
	}
	c.deferredEvent = &o
}

// isEcho says whether the observation is of the apply that left a version behind.
func isEcho(applied version, o observation) bool {
	return applied != (version{}) && !o.deleted && o.snapshot.version.is(applied)
}

// stale says whether the observation is older than the apply that left a version
// behind. Where versions have no order, nothing is stale.
func stale(applied version, o observation) bool {
	if applied == (version{}) || o.missed {
		return false
	}
	order, ok := o.snapshot.version.compare(applied)
	return ok && order < 0
}

// endApplyLocked ends the flight of an apply and judges what was deferred, before any
// later event can be; nil if nothing was.
func (c *claim) endApplyLocked() *judgement {
	deferred := c.deferredEvent
	c.inFlight, c.deferredEvent = false, nil
	if deferred == nil {
		return nil
	}
	j := c.judgeEvent(*deferred)
	j.event = deferred.snapshot
	return &j
}
