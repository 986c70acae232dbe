package trigger

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// baseline are the fields of other field managers in an object before the unreverted edits of owned fields.
// Their fields beyond it were added by these edits.
type baseline struct {
	before ownership.Paths
	// latest are the paths that other managers own in the last event, digest is the digest
	// of the owned fields in it.
	latest ownership.Paths
	digest ownership.Digest
	// editors are the field managers that changed owned fields, or the fields that an edit has put in their place. Their later
	// additions are part of their edits.
	editors []string
	// raced is the baseline before the last apply, if other managers added paths during that
	// apply: events older than the apply show whether an edit added them. nil otherwise.
	raced *baseline
}

// raced returns the raced baseline of the claim, or nil.
func (c *claim) raced() *baseline {
	if c.baseline == nil {
		return nil
	}
	return c.baseline.raced
}

// updateBaseline updates the baseline with an event. While the object is as expected, its
// Snapshot has the baseline.
func (c *claim) updateBaseline(verdict Verdict, o observation) {
	switch verdict {
	case VerdictAsExpected, VerdictEcho:
		if !c.is.unreverted {
			c.baseline, c.is.alone = nil, false
		}
	case VerdictDrift, VerdictStale:
		if stale(c.expected.version, o) {
			c.raced().updateOlder(o.snapshot, c.expected)
			return
		}
		if c.baseline == nil {
			c.startBaseline(o.before)
		}
		c.baseline.update(o.snapshot, c.expected.owned.manager)
	case VerdictDeleted: // an object that lost its label looks deleted: snapshot is its last state
		if c.baseline == nil {
			c.startBaseline(o.snapshot)
		}
	case VerdictUnchanged, VerdictForeign, VerdictInFlight, VerdictTerminating, VerdictGone, VerdictUnknown:
	}
}

// startBaseline sets the baseline from an object that is as expected. Only such an object shows its fields before an edit.
func (c *claim) startBaseline(s *Snapshot) {
	switch {
	case c.is.alone:
		c.baseline, c.is.alone = &baseline{digest: c.expected.owned.digest}, false
	case s != nil && !c.is.unreverted && s.has(c.expected.owned):
		c.baseline = &baseline{before: s.others(), latest: s.others(), digest: c.expected.owned.digest}
	}
}

// update adds a write that brought the object into an unexpected state. Additions of another
// manager in a write that changes no owned field are not part of an edit: they were there before
// the next edit.
func (b *baseline) update(s *Snapshot, manager managerID) {
	if b == nil {
		return
	}
	digest, known := s.digestOf(manager)
	if !known {
		return
	}
	others, object := s.others(), s.waiting().object
	switch {
	case object == nil: // the same event again
	case digest == b.digest:
		b.editors = b.editorsIn(object)
		b.before = b.before.Union(ownership.Others(object, v1alpha1.FieldManagerPrefix, b.editors...).Minus(b.latest))
	default:
		b.editors = ownership.Editors(object, b.before)
	}
	b.digest, b.latest = digest, others
}

// editorsIn returns the editors after a write that changes no owned field. A writer of a field that the edits before took or
// added is one: a field that another manager took is not owned any more.
func (b *baseline) editorsIn(object *unstructured.Unstructured) []string {
	editors := slices.Concat(b.editors, ownership.Successors(object, b.latest.Minus(b.before)))
	slices.Sort(editors)
	return slices.Compact(editors)
}

// updateOlder adds a write that is older than the last apply.
func (b *baseline) updateOlder(s *Snapshot, expected expectation) {
	switch {
	case b == nil:
	case s.has(expected.owned): // its editor undid the edit
		*b = baseline{before: s.others(), latest: s.others(), digest: expected.owned.digest}
	default:
		b.update(s, expected.owned.manager)
	}
}

// edits reports whether a write edits owned fields, or adds something to such an edit.
func (b *baseline) edits(s *Snapshot, manager managerID) bool {
	if digest, known := s.digestOf(manager); !known || digest != b.digest {
		return true
	}
	object := s.waiting().object
	return object != nil && s.others().Minus(b.latest) != ownership.Others(object, v1alpha1.FieldManagerPrefix, b.editorsIn(object)...).Minus(b.latest)
}

// digestOf returns the digest of the fields that a manager owns in the object.
func (s *Snapshot) digestOf(manager managerID) (ownership.Digest, bool) {
	all := s.owned
	if whole := s.waiting().owned; len(whole) > 0 {
		all = whole
	}
	i := slices.IndexFunc(all, func(o owned) bool { return o.manager == manager })
	if i < 0 {
		return ownership.Digest{}, false
	}
	return all[i].digest, true
}

// Before returns the paths that other field managers owned in an object before it was edited.
// known is false if no event showed the object as it was then, as after a restart.
func (x *Index) Before(owner Owner, key ObjectKey) (before ownership.Paths, known bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.findLocked(owner, compact(key))
	if c == nil {
		return "", false
	}
	return c.before()
}

const (
	// recordSoon is the delay until the status records fields of other managers that have changed, so that a burst of
	// changes is one write; recordSpacing is the time between two such writes while they change again and again.
	recordSoon    = 200 * time.Millisecond
	recordSpacing = 30 * time.Second
)

// recordDelay returns the delay until the owner records the fields of other managers.
func (x *Index) recordDelay(owner Owner, now time.Time) time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	h := x.holders[owner]
	switch {
	case h == nil:
		return recordSoon
	case now.After(h.recorded.Add(recordSpacing)):
		h.recorded = now.Add(recordSoon)
	case now.After(h.recorded):
		h.recorded = h.recorded.Add(recordSpacing)
	}
	return h.recorded.Sub(now)
}

// BeforeEdits returns the paths that other field managers own in an object as stored by a watch: before the unreverted edits,
// if there are any. known is false if no event showed the object before them.
func (x *Index) BeforeEdits(owner Owner, key ObjectKey, kept any) (before ownership.Paths, known bool) {
	s, ok := kept.(*Snapshot)
	if !ok {
		return "", false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.findLocked(owner, compact(key))
	switch {
	case c == nil, !c.is.known:
		return "", false
	case !c.is.unreverted && !stale(c.expected.version, observation{snapshot: s}) && s.has(c.expected.owned):
		return s.others(), true
	}
	return c.before()
}

// before implements Index.Before for a claim.
func (c *claim) before() (ownership.Paths, bool) {
	if c.baseline == nil {
		return "", c.is.alone
	}
	return c.baseline.before, true
}
