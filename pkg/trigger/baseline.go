package trigger

import (
	"slices"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// baseline is what other field managers owned in an object before the edits of what is
// ours that are not reverted yet. What they own beyond it came with these edits.
type baseline struct {
	before ownership.Paths
	// latest are the paths that others own, and digest is that of what is ours, in the
	// last event.
	latest ownership.Paths
	digest ownership.Digest
	// editors are the field managers that changed what is ours. What they add afterwards is a
	// part of their edits.
	editors []string
	// raced is the baseline of an edit that came while an apply was under way and that its
	// event has not shown yet; nil if there is none.
	raced *ownership.Paths
}

// raced is that of the baseline.
func (c *claim) raced() *ownership.Paths {
	if c.baseline == nil {
		return nil
	}
	return c.baseline.raced
}

// learn keeps the baseline of an object up to date with an event. As long as the object is
// in order, its Snapshot has it.
func (c *claim) learn(verdict Verdict, o observation) {
	switch verdict {
	case VerdictInOrder, VerdictEcho:
		if !c.left {
			c.baseline, c.alone = nil, false
		}
	case VerdictDrift:
		if stale(c.expected.version, o) {
			return // the apply came after it; see raced
		}
		if c.baseline == nil {
			c.begin(o.before)
		}
		c.baseline.learn(o.snapshot, c.expected.manager)
	case VerdictDeleted: // an object without its label looks deleted: this is what it was
		if c.baseline == nil {
			c.begin(o.snapshot)
		}
	case VerdictUnchanged, VerdictForeign, VerdictStale, VerdictInFlight, VerdictTerminating, VerdictGone, VerdictUnknown:
	}
}

// begin begins the baseline with an object that is in order. Another one says nothing of
// what was there before an edit.
func (c *claim) begin(s *Snapshot) {
	switch {
	case c.alone:
		c.baseline, c.alone = &baseline{digest: c.expected.digest}, false
	case s != nil && !c.left && s.has(c.expected.owned):
		c.baseline = &baseline{before: s.others(), latest: s.others(), digest: c.expected.digest}
	}
}

// learn takes a write into account that brought an object into a state other than expected.
// What another manager adds with a write that changes nothing of ours is no part of an edit: it
// was there before the next one.
func (b *baseline) learn(s *Snapshot, manager managerID) {
	if b == nil {
		return
	}
	digest, known := s.digestOf(manager)
	if !known {
		return
	}
	others, object := s.others(), s.found()
	switch {
	case object == nil: // the same event again
	case digest == b.digest:
		b.before = b.before.Union(ownership.Others(object, v1alpha1.FieldManagerPrefix, b.editors...).Minus(b.latest))
	default:
		b.editors = ownership.Editors(object, b.before)
	}
	b.digest, b.latest = digest, others
}

// digestOf is the digest of what a manager owns in the object.
func (s *Snapshot) digestOf(manager managerID) (ownership.Digest, bool) {
	all := s.owned
	if e := s.evidence.Load(); e != nil && len(e.owned) > 0 {
		all = e.owned
	}
	i := slices.IndexFunc(all, func(o owned) bool { return o.manager == manager })
	if i < 0 {
		return ownership.Digest{}, false
	}
	return all[i].digest, true
}

// Before returns the paths that other field managers owned in an object before it was
// edited. It reports known false if no event showed the object as it was then, as after a
// restart.
func (x *Index) Before(owner Owner, key ObjectKey) (before ownership.Paths, known bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.findLocked(owner, compact(key))
	if c == nil {
		return "", false
	}
	return c.before()
}

// before is what Before returns.
func (c *claim) before() (ownership.Paths, bool) {
	if c.baseline == nil {
		return "", c.alone
	}
	return c.baseline.before, true
}

// racedBefore is the baseline of an edit that came while an apply was under way; nil for the
// event of another one.
func (x *Index) racedBefore(owner Owner, key compactKey, o observation) *ownership.Paths {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.findLocked(owner, key)
	if c == nil || !stale(c.expected.version, o) {
		return nil
	}
	return c.raced()
}
