package trigger

import (
	"time"

	"github.com/vidra-operator/vidra/pkg/ownership"
)

// claim is the state that one owner expects of one object.
type claim struct {
	key compactKey
	// next is the claim of another owner on the same object.
	next     *claim
	holder   *holder
	expected expectation
	// baseline are the fields of other managers before the unreverted edits; nil if the snapshot in the store has it, or it
	// is unknown.
	baseline *baseline
	// deferredEvent is the last event that arrived during an apply.
	deferredEvent *observation
	is            claimFlags
	// sensitive is Applied.Sensitive, or whether a state of the object since then had the annotation.
	sensitive ownership.Sensitivity
	// listing is the number of the last Listing that had the object.
	listing uint16
	// place is the index of the claim in holder.claims.
	place int32
}

// claimFlags are the states of a claim, which combine freely.
type claimFlags struct {
	// known is whether expected is set: false until the first apply of the object returned.
	known bool
	// inFlight is whether an apply is running.
	inFlight bool
	// unreverted is whether the object differs and was not applied; see Applied.
	unreverted bool
	// expectsRemoval is whether the object is to be removed, so that its deletion is no
	// drift.
	expectsRemoval bool
	// learned is whether the version of expected is from an event, and the digest from the status.
	learned bool
	// alone is whether other managers owned nothing after the last apply, and an event is still
	// to confirm it: an empty baseline.
	alone bool
}

// expect sets the result of an apply.
func (c *claim) expect(a Applied) {
	c.holder.manager = a.Manager
	c.expected, c.is.known, c.is.unreverted, c.is.learned = expect(a), true, a.Unreverted, false
}

// applied returns the result of the last apply, as far as the claim has it.
func (c *claim) applied() Applied {
	return Applied{
		Manager: c.holder.manager, Digest: c.expected.owned.digest, UID: c.expected.uid.get(), ResourceVersion: c.expected.version.String(),
		Tools: c.holder.tools, Sensitive: c.sensitive, Unreverted: c.is.unreverted,
	}
}

// commit sets the result of an apply, or of the comparison of an object that is not applied.
func (c *claim) commit(a Applied) {
	c.expect(a)
	// An edit that is still to be judged, or is unreverted, may have removed the annotation.
	pending := ownership.Sensitivity(a.Unreverted || a.Raced != nil || c.deferredEvent != nil)
	c.sensitive = a.Sensitive || pending && c.sensitive
	switch {
	case a.Unreverted:
	case a.Others == "":
		c.baseline, c.is.alone = nil, true
	default:
		latest := &baseline{before: a.Others, latest: a.Others, digest: a.Digest}
		if a.Raced != nil {
			if latest.raced = c.baseline; c.baseline == nil {
				latest.raced = &baseline{before: *a.Raced, latest: *a.Raced}
			}
			latest.raced.raced = nil
		}
		c.baseline, c.is.alone = latest, false
	}
}

// noteSensitive records that a state of the object has the annotation that withholds its values.
func (c *claim) noteSensitive(o observation) {
	c.sensitive = c.sensitive || ownership.Sensitivity(o.snapshot.wasSensitive() || o.before.wasSensitive())
}

// observation is the content of an event of an object.
type observation struct {
	snapshot *Snapshot
	deleted  bool
	// missed is whether a relist found the object missing, so that the deletion itself went
	// unobserved, and snapshot is older than it.
	missed bool
	// changed is whether the object has another version than in the previous event.
	changed bool
	// before is the object in the previous event; nil if there was none.
	before *Snapshot
	// skipped are the states of the object between before and snapshot that were merged
	// into this event, in their order.
	skipped []*Snapshot
	// received is when the event was received; for drift in merged events, the first of them.
	received time.Time
	// rewound reports whether the version is older than the version of the previous event: etcd was restored from a backup,
	// and known versions are meaningless.
	rewound bool
	// healthDelay is the delay until the owners are enqueued because of a change of health;
	// 0 without one.
	healthDelay time.Duration
	// othersChanged is whether other managers own other fields than in the previous event, or did in between.
	othersChanged bool
}

// Verdict is the meaning of an event for an owner.
type Verdict string

const (
	// VerdictAsExpected means that the owned fields are as expected. It is counted as
	// VerdictUnchanged or VerdictForeign.
	VerdictAsExpected Verdict = "AsExpected"
	// VerdictUnchanged means that the object is unchanged: a relist, or a start.
	VerdictUnchanged Verdict = "Unchanged"
	// VerdictForeign means that only the status, or fields that the owner does not own, were
	// changed.
	VerdictForeign Verdict = "Foreign"
	// VerdictEcho means that the event is the echo of the owner's last apply.
	VerdictEcho Verdict = "Echo"
	// VerdictStale means that the event is older than the owner's last apply.
	VerdictStale Verdict = "Stale"
	// VerdictInFlight means that an apply is running; the event is judged after it.
	VerdictInFlight Verdict = "InFlight"
	// VerdictTerminating means that the object is being deleted; its deletion will be
	// another event.
	VerdictTerminating Verdict = "Terminating"
	// VerdictDrift means that an owned field was changed, removed or taken by another manager.
	VerdictDrift Verdict = "Drift"
	// VerdictDeleted means that the object was deleted, or lost the label of the watch.
	VerdictDeleted Verdict = "Deleted"
	// VerdictGone means that an object that was to be removed is gone.
	VerdictGone Verdict = "Gone"
	// VerdictUnknown means that the owners of the object are unknown.
	VerdictUnknown Verdict = "Unknown"
)

// judge returns the verdict on an observation for a claim.
func judge(c *claim, o observation) Verdict {
	switch {
	case c.is.inFlight:
		return VerdictInFlight
	case !c.is.learned && isEcho(c.expected.version, o):
		return VerdictEcho
	case stale(c.expected.version, o) && c.raced() != nil && !o.deleted && !o.snapshot.has(c.expected.owned):
		return VerdictDrift
	case stale(c.expected.version, o):
		return VerdictStale
	case o.deleted && c.is.expectsRemoval:
		return VerdictGone
	case o.deleted:
		return VerdictDeleted
	case c.is.expectsRemoval || o.snapshot.terminating():
		return VerdictTerminating
	case o.snapshot.has(c.expected.owned):
		return VerdictAsExpected
	default:
		return VerdictDrift
	}
}

// judgeEvent judges an event, and the states that were merged into it, in their order. It
// returns the judgement of the event, or of the last edit before it that the last apply has not
// undone completely.
func (c *claim) judgeEvent(o observation) judgement {
	var raced *judgement
	var drifted time.Time // since when each state was drift; zero if the last one was none
	for _, s := range o.skipped {
		j := c.judgeState(observation{snapshot: s, before: o.before, changed: true, received: s.waiting().received, othersChanged: o.othersChanged})
		if j.before != nil {
			raced = &j
		}
		switch {
		case j.verdict != VerdictDrift:
			drifted = time.Time{}
		case drifted.IsZero():
			drifted = s.waiting().received
		}
		o.before = s
	}
	last := c.judgeState(o)
	if last.verdict == VerdictDrift && !drifted.IsZero() {
		last.observation.received = drifted
	}
	if raced != nil && last.verdict != VerdictDrift && !o.deleted {
		return *raced
	}
	return last
}

// judgeState judges one state of an object.
func (c *claim) judgeState(o observation) judgement {
	j := judgement{owner: c.holder.owner, verdict: judge(c, o), observation: o}
	raced := j.verdict == VerdictDrift && stale(c.expected.version, o)
	if raced && !c.raced().edits(o.snapshot, c.expected.owned.manager) {
		j.verdict, raced = VerdictStale, false
	}
	c.updateBaseline(j.verdict, o)
	c.learn(j.verdict, o.snapshot)
	if raced {
		j.before = new(c.raced().before)
	}
	return j
}

// learn notes the version of an object that is as expected after the apply of an earlier process. Older versions are stale from then on.
func (c *claim) learn(verdict Verdict, s *Snapshot) {
	if verdict == VerdictAsExpected && c.expected.version == (version{}) {
		c.expected.version, c.is.learned = s.version, true
	}
}

// deferEvent stores an event until the running apply has ended. It merges an earlier one into it.
func (c *claim) deferEvent(o observation) {
	if p := c.deferredEvent; p != nil && !p.deleted && !o.deleted {
		skipped := p.skipped
		for _, s := range append([]*Snapshot{p.snapshot}, o.skipped...) {
			skipped = appendSkipped(skipped, s)
		}
		o.before, o.skipped, o.othersChanged = p.before, skipped, p.othersChanged || o.othersChanged
	}
	c.deferredEvent = &o
}

// isEcho reports whether the observation is the echo of the apply with the given version.
func isEcho(applied version, o observation) bool {
	return applied != (version{}) && !o.deleted && o.snapshot.version.is(applied)
}

// stale reports whether the observation is older than the apply with the given version. Without
// an order of versions, nothing is stale.
func stale(applied version, o observation) bool {
	if applied == (version{}) || o.missed {
		return false
	}
	order, ok := o.snapshot.version.compare(applied)
	return ok && order < 0
}

// endApplyLocked ends an apply and judges the deferred event before any later one; nil if there
// is none. The mutex of the Index must be held.
func (c *claim) endApplyLocked() *judgement {
	deferred := c.deferredEvent
	c.is.inFlight, c.deferredEvent = false, nil
	if deferred == nil {
		return nil
	}
	j := c.judgeEvent(*deferred)
	j.event = deferred.snapshot
	return &j
}
