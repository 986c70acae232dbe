package trigger

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/ownership"
)

// Owner is the VidraResource that owns an object.
type Owner = types.NamespacedName

// ObjectKey identifies a managed object, in the version in which it is applied.
type ObjectKey struct {
	Cluster   string
	GVR       schema.GroupVersionResource
	Namespace string
	Name      string
}

// Applied is what an apply left behind.
type Applied struct {
	// Manager is the field manager that applied.
	Manager string
	// Digest of what Manager owns in the object.
	Digest ownership.Digest
	// UID and ResourceVersion of the object. Empty where they are not known, as
	// after a restart: then no event counts as older than the apply.
	UID             types.UID
	ResourceVersion string
	// Tools are those whose additions to the object are in Digest; see CountAdditions.
	Tools ownership.Tools
	// Others are the paths that other field managers own in the object.
	Others ownership.Paths
	// Raced is what others owned before the edits that are reverted, if some of Others came
	// while the apply was under way: with an edit whose event counts although it is older
	// than the apply. nil otherwise.
	Raced *ownership.Paths
	// Unreverted says that the object was not applied but left as somebody changed it:
	// what is ours is not known from the object any more, so Digest is over all of
	// it but its status, and every other change counts.
	Unreverted bool
}

// Index knows who owns which object and what each owner expects of it. It is
// safe for concurrent use.
type Index struct {
	// mu guards claims and holders, and what they hold.
	mu sync.Mutex
	// claims holds the first claim on each object, which leads to the others.
	claims  map[compactKey]*claim
	holders map[Owner]*holder
}

// holder is an owner that is known.
type holder struct {
	owner Owner
	// manager is the field manager with which it applies.
	manager string
	// tools are those whose additions count as drift; none if no additions do.
	tools ownership.Tools
	// claims are all its claims, each of which knows its place.
	claims []*claim
}

// NewIndex makes an empty Index.
func NewIndex() *Index {
	return &Index{claims: map[compactKey]*claim{}, holders: map[Owner]*holder{}}
}

// Load makes an owner known, with what it is known to have applied. An object of
// an owner that is known is the owner's only if it is claimed; see Factory.
func (x *Index) Load(owner Owner, applied map[ObjectKey]Applied) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.holderLocked(owner)
	for key, a := range applied {
		x.claimLocked(owner, compact(key)).expect(a)
	}
}

// CountAdditions has what the tools of people add to the objects of an owner count as
// drift, from the next event of each object on; without tools, nothing that is added does.
func (x *Index) CountAdditions(owner Owner, tools ownership.Tools) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.holderLocked(owner).tools = tools
}

// Loaded tells whether an owner is known.
func (x *Index) Loaded(owner Owner) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.holders[owner] != nil
}

// Begin notes that an apply of an object is about to be sent. Commit or Abort
// must follow.
func (x *Index) Begin(owner Owner, key ObjectKey, manager string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.claimLocked(owner, compact(key))
	c.inFlight, c.expectsRemoval = true, false
	c.holder.manager, c.expected.manager = manager, identify(manager)
}

// Expected tells what an owner expects of an object.
func (x *Index) Expected(owner Owner, key ObjectKey) (Applied, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.findLocked(owner, compact(key))
	if c == nil {
		return Applied{}, false
	}
	applied := c.expected.applied(c.holder.manager)
	applied.Unreverted, applied.Tools = c.unreverted, c.holder.tools
	return applied, c.known
}

// Claim is what an owner expects of an object.
type Claim struct {
	Owner Owner
	// Applied is what its last apply left behind, if Known.
	Applied Applied
	Known   bool
	// InFlight says that an apply is under way, Leaving that the object is to be removed.
	InFlight, ExpectsRemoval bool
}

// Claims returns the claims on an object, which include those that an apply is about to
// make true. Owners whose events are off have none.
func (x *Index) Claims(key ObjectKey) []Claim {
	x.mu.Lock()
	defer x.mu.Unlock()
	var all []Claim
	for c := x.claims[compact(key)]; c != nil; c = c.next {
		claim := Claim{Owner: c.holder.owner, Applied: c.expected.applied(c.holder.manager), Known: c.known, InFlight: c.inFlight, ExpectsRemoval: c.expectsRemoval}
		claim.Applied.Unreverted, claim.Applied.Tools = c.unreverted, c.holder.tools
		all = append(all, claim)
	}
	return all
}

// AsExpected tells whether an owner finds an object as expected, from what a watch
// keeps of it. What the owner expects nothing of is not in order. What is not
// judged yet counts as in order: its event is on its way, with what was changed.
func (x *Index) AsExpected(owner Owner, key ObjectKey, kept any, found bool) bool {
	s, ok := kept.(*Snapshot)
	if !found || !ok {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.findLocked(owner, compact(key))
	return c != nil && c.known && (s.pendingState() != nil || judge(c, observation{snapshot: s}) != VerdictDrift)
}

// HasObserved tells whether what a watch keeps of an object is what the owner's last apply left,
// or newer and as expected.
func (x *Index) HasObserved(owner Owner, key ObjectKey, kept any) bool {
	s, ok := kept.(*Snapshot)
	if !ok {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.findLocked(owner, compact(key))
	if c == nil || !c.known {
		return false
	}
	verdict := judge(c, observation{snapshot: s})
	return verdict == VerdictEcho || verdict == VerdictAsExpected
}

// commit ends an apply that succeeded, and judges the event that was deferred
// meanwhile; nil if there was none.
func (x *Index) commit(owner Owner, key compactKey, applied Applied) *judgement {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.claimLocked(owner, key)
	c.commit(applied)
	return c.endApplyLocked()
}

// abort ends an apply that failed, and judges the event that was deferred
// meanwhile; nil if there was none. What was never applied is in order as it is.
func (x *Index) abort(owner Owner, key compactKey) *judgement {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.claimLocked(owner, key)
	if c.known {
		return c.endApplyLocked()
	}
	x.forgetLocked(c)
	if c.deferredEvent == nil {
		return nil
	}
	return &judgement{owner: owner, verdict: VerdictAsExpected, observation: *c.deferredEvent, event: c.deferredEvent.snapshot}
}

// ExpectRemoval notes that an object is to be removed.
func (x *Index) ExpectRemoval(owner Owner, key ObjectKey) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.claimLocked(owner, compact(key)).expectsRemoval = true
}

// Forget drops what an owner expects of an object.
func (x *Index) Forget(owner Owner, key ObjectKey) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if c := x.findLocked(owner, compact(key)); c != nil {
		x.forgetLocked(c)
	}
}

// forgetOwner drops everything that an owner expects.
func (x *Index) forgetOwner(owner Owner) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if h := x.holders[owner]; h != nil {
		for len(h.claims) > 0 {
			x.forgetLocked(h.claims[len(h.claims)-1])
		}
		delete(x.holders, owner)
	}
}

// judgement is the verdict on an event for one owner.
type judgement struct {
	owner   Owner
	verdict Verdict
	// observation is what was judged: the event, or an edit that was skipped before it.
	observation observation
	// event is the state that the event brought.
	event *Snapshot
	// before is what others owned before an edit that came while an apply was under way; nil
	// if the Index knows.
	before *ownership.Paths
}

// judge decides what an observation means for every owner of the object, and
// parks it where an apply is in flight.
func (x *Index) judge(key compactKey, o observation) []judgement {
	x.mu.Lock()
	defer x.mu.Unlock()
	var all []judgement
	for c := x.claims[key]; c != nil; c = c.next {
		if o.rewound {
			c.expected.version = version{}
		}
		if c.inFlight {
			c.deferEvent(o)
			all = append(all, judgement{owner: c.holder.owner, verdict: VerdictInFlight, observation: o})
			continue
		}
		all = append(all, c.judgeEvent(o))
	}
	return all
}

// isDeferred says whether the event that brought a snapshot waits for an apply.
func (x *Index) isDeferred(key compactKey, s *Snapshot) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for c := x.claims[key]; c != nil; c = c.next {
		if c.deferredEvent != nil && (c.deferredEvent.snapshot == s || slices.Contains(c.deferredEvent.skipped, s)) {
			return true
		}
	}
	return false
}

// lookUp returns a key as the Index holds it, so that a name is kept once, the
// field managers that are expected in the object, which of them left it as somebody
// changed it, and for which of them the additions of which tools count.
func (x *Index) lookUp(key compactKey) (known compactKey, managers, left []string, tools map[string]ownership.Tools) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for c := x.claims[key]; c != nil; c = c.next {
		key = c.key
		if c.expected.manager != 0 { // a claim on what is only to be removed has none
			managers = append(managers, c.holder.manager)
		}
		if c.unreverted {
			left = append(left, c.holder.manager)
		}
		if len(c.holder.tools) > 0 {
			if tools == nil {
				tools = map[string]ownership.Tools{}
			}
			tools[c.holder.manager] = c.holder.tools
		}
	}
	return key, managers, left, tools
}

// asExpected says whether anybody owns an object, and whether every owner finds it
// as expected.
func (x *Index) asExpected(key compactKey, s *Snapshot) (claimed, asExpected bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	first := x.claims[key]
	for c := first; c != nil; c = c.next {
		switch judge(c, observation{snapshot: s}) {
		case VerdictAsExpected, VerdictEcho, VerdictStale, VerdictTerminating:
		default:
			return true, false
		}
	}
	return first != nil, true
}

// holderLocked finds an owner or makes it known.
func (x *Index) holderLocked(owner Owner) *holder {
	h := x.holders[owner]
	if h == nil {
		h = &holder{owner: owner}
		x.holders[owner] = h
	}
	return h
}

// findLocked finds the claim of an owner on an object; nil if there is none.
func (x *Index) findLocked(owner Owner, key compactKey) *claim {
	for c := x.claims[key]; c != nil; c = c.next {
		if c.holder.owner == owner {
			return c
		}
	}
	return nil
}

// claimLocked finds or makes the claim of an owner on an object.
func (x *Index) claimLocked(owner Owner, key compactKey) *claim {
	if c := x.findLocked(owner, key); c != nil {
		return c
	}
	h := x.holderLocked(owner)
	c := &claim{key: key, holder: h, next: x.claims[key], place: int32(len(h.claims))}
	x.claims[key], h.claims = c, append(h.claims, c)
	return c
}

func (x *Index) forgetLocked(gone *claim) {
	h := gone.holder
	last := len(h.claims) - 1
	h.claims[gone.place], h.claims[last].place = h.claims[last], gone.place
	h.claims[last], h.claims = nil, h.claims[:last]

	first := x.claims[gone.key]
	for at := &first; *at != nil; at = &(*at).next {
		if *at == gone {
			*at = gone.next
			break
		}
	}
	if first == nil {
		delete(x.claims, gone.key)
	} else {
		x.claims[gone.key] = first
	}
}
