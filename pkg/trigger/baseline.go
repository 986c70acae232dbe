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
	// raced is the baseline before the last apply, if others added something while that was
	// under way: then events that are older than the apply tell whether with an edit. nil
	// otherwise.
	raced *baseline
}

// raced is that of the baseline.
func (c *claim) raced() *baseline {
	if c.baseline == nil {
		return nil
	}
	return c.baseline.raced
}

// updateBaseline keeps the baseline of an object up to date with an event. As long as the object is
// in order, its Snapshot has it.
func (c *claim) updateBaseline(verdict Verdict, o observation) {
	switch verdict {
	case VerdictAsExpected, VerdictEcho:
		if !c.unreverted {
			c.baseline, c.alone = nil, false
		}
	case VerdictDrift, VerdictStale:
		if stale(c.expected.version, o) {
			c.raced().updateOlder(o.snapshot, c.expected)
			return
		}
		if c.baseline == nil {
			c.startBaseline(o.before)
		}
		c.baseline.update(o.snapshot, c.expected.manager)
	case VerdictDeleted: // an object without its label looks deleted: this is what it was
		if c.baseline == nil {
			c.startBaseline(o.snapshot)
		}
	case VerdictUnchanged, VerdictForeign, VerdictInFlight, VerdictTerminating, VerdictGone, VerdictUnknown:
	}
}

// startBaseline begins the baseline with an object that is in order. Another one says nothing of
// what was there before an edit.
func (c *claim) startBaseline(s *Snapshot) {
	switch {
	case c.alone:
		c.baseline, c.alone = &baseline{digest: c.expected.digest}, false
	case s != nil && !c.unreverted && s.has(c.expected.owned):
		c.baseline = &baseline{before: s.others(), latest: s.others(), digest: c.expected.digest}
	}
}

// updateBaseline takes a write into account that brought an object into a state other than expected.
// What another manager adds with a write that changes nothing of ours is no part of an edit: it
// was there before the next one.
func (b *baseline) update(s *Snapshot, manager managerID) {
	if b == nil {
		return
	}
	digest, known := s.digestOf(manager)
	if !known {
		return
	}
	others, object := s.others(), s.pendingState()
	switch {
	case object == nil: // the same event again
	case digest == b.digest:
		b.before = b.before.Union(ownership.Others(object, v1alpha1.FieldManagerPrefix, b.editors...).Minus(b.latest))
	default:
		b.editors = ownership.Editors(object, b.before)
	}
	b.digest, b.latest = digest, others
}

// updateOlder takes a write into account that came before the last apply.
func (b *baseline) updateOlder(s *Snapshot, expected expectation) {
	switch {
	case b == nil:
	case s.has(expected.owned): // whoever had edited it took that back
		*b = baseline{before: s.others(), latest: s.others(), digest: expected.digest}
	default:
		b.update(s, expected.manager)
	}
}

// edits reports whether a write is an edit of what is ours, or adds something to one.
func (b *baseline) edits(s *Snapshot, manager managerID) bool {
	if digest, known := s.digestOf(manager); !known || digest != b.digest {
		return true
	}
	object := s.pendingState()
	return object != nil && s.others().Minus(b.latest) != ownership.Others(object, v1alpha1.FieldManagerPrefix, b.editors...).Minus(b.latest)
}

// digestOf is the digest of what a manager owns in the object.
func (s *Snapshot) digestOf(manager managerID) (ownership.Digest, bool) {
	all := s.owned
	if e := s.pending.Load(); e != nil && len(e.owned) > 0 {
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
