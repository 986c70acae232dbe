package trigger

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/healthcheck"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// Owner is the VidraResource that owns an object.
type Owner = types.NamespacedName

// ObjectKey identifies a managed object, in the version of its apply.
type ObjectKey struct {
	Cluster   string
	GVR       schema.GroupVersionResource
	Namespace string
	Name      string
}

// Applied is the result of an apply.
type Applied struct {
	// Manager is the field manager that applied.
	Manager string
	// Digest is the digest of the fields that Manager owns in the object.
	Digest ownership.Digest
	// UID and ResourceVersion of the object. Empty where they are unknown, as after a
	// restart: no event is older than the apply until one shows the object as expected.
	UID             types.UID
	ResourceVersion string
	// Tools are the tools whose additions to the object are in Digest; see CountAdditions.
	Tools ownership.Tools
	// Others are the paths that other field managers own in the object.
	Others ownership.Paths
	// Raced are the fields of other managers before the edits that are reverted, if some of Others was added during the apply,
	// by an edit whose event counts although it is older than the apply. nil otherwise.
	Raced *ownership.Paths
	// Sensitive is whether the object has the annotation that withholds its values, or had it since its manifest
	// changed last.
	Sensitive ownership.Sensitivity
	// Unreverted is whether the object differs and stays as it is. The object lacks the
	// wanted fields then, so Digest is over all of it except its status, and every other change
	// counts.
	Unreverted bool
}

// Index holds the owners of each object and the state that each owner expects. It is safe for
// concurrent use.
type Index struct {
	// mu guards the fields below, and the contents of claims and holders.
	mu sync.Mutex
	// claims holds the first claim on each object, which links to the others.
	claims  map[compactKey]*claim
	holders map[Owner]*holder
	// listings is the number of the last Listing; it starts again after the largest number.
	listings uint16
}

// holder is a known owner.
type holder struct {
	owner Owner
	// manager is the field manager of the owner.
	manager string
	// tools are those whose additions count as drift, if any.
	tools ownership.Tools
	// checks compute the health of its objects; optional.
	checks *healthcheck.Checks
	// missing reports that an object was absent when the health was last read; see AwaitHealth.
	missing bool
	// claims are the claims of the owner, each with its index in the slice.
	claims []*claim
	// recorded is until when the fields of other managers, as far as they changed, were enqueued to be recorded.
	recorded time.Time
}

// NewIndex returns an empty Index.
func NewIndex() *Index {
	return &Index{claims: map[compactKey]*claim{}, holders: map[Owner]*holder{}}
}

// Load adds an owner with the results of its applies, as far as they are known. A known owner owns only the objects of its
// claims; see Factory.
func (x *Index) Load(owner Owner, applied map[ObjectKey]Applied) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.holderLocked(owner)
	for key, a := range applied {
		c := x.claimLocked(owner, compact(key))
		c.expect(a)
		c.sensitive = c.sensitive || a.Sensitive
	}
}

// CountAdditions makes additions by tools to the objects of an owner count as drift, from the
// next event of each object on. Without tools, additions are no drift.
func (x *Index) CountAdditions(owner Owner, tools ownership.Tools) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.holderLocked(owner).tools = tools
}

// CheckHealth has checks compute the health of the objects of an owner, from the next event of each object on.
func (x *Index) CheckHealth(owner Owner, checks *healthcheck.Checks) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.holderLocked(owner).checks = checks
}

// AwaitHealth has each object that a watch shows anew enqueue the owner because of its health, or ends that. A new object that is Current is no
// change of health otherwise, and one that was absent at the last look may have been unhealthy before.
func (x *Index) AwaitHealth(owner Owner, missing bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if h := x.holders[owner]; h != nil {
		h.missing = missing
	}
}

// Loaded reports whether an owner is known.
func (x *Index) Loaded(owner Owner) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.holders[owner] != nil
}

// Begin records that an apply of an object is about to be sent. Commit or Abort must follow.
func (x *Index) Begin(owner Owner, key ObjectKey, manager string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.claimLocked(owner, compact(key))
	c.is.inFlight, c.is.expectsRemoval = true, false
	c.holder.manager, c.expected.owned.manager = manager, identify(manager)
}

// Expected returns the expectation of an owner about an object.
func (x *Index) Expected(owner Owner, key ObjectKey) (Applied, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.findLocked(owner, compact(key))
	if c == nil {
		return Applied{}, false
	}
	return c.applied(), c.is.known
}

// Claim is the expectation of an owner about an object.
type Claim struct {
	Owner Owner
	// Applied is the result of its last apply, if Known.
	Applied Applied
	Known   bool
	// InFlight is whether an apply is running, ExpectsRemoval whether the object is to be
	// removed.
	InFlight, ExpectsRemoval bool
}

// Claims returns the claims on an object, including claims of running applies. Claims of owners whose events are off are left out.
func (x *Index) Claims(key ObjectKey) []Claim {
	x.mu.Lock()
	defer x.mu.Unlock()
	var all []Claim
	for c := x.claims[compact(key)]; c != nil; c = c.next {
		all = append(all, Claim{Owner: c.holder.owner, Applied: c.applied(), Known: c.is.known, InFlight: c.is.inFlight, ExpectsRemoval: c.is.expectsRemoval})
	}
	return all
}

// AsExpected reports whether an object, as stored by a watch, is as an owner expects. It is
// false if the owner expects nothing. An object whose event is still to be judged counts as
// expected: the event follows, with the change.
func (x *Index) AsExpected(owner Owner, key ObjectKey, kept any, found bool) bool {
	s, ok := kept.(*Snapshot)
	if !found || !ok {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.findLocked(owner, compact(key))
	if c == nil || !c.is.known {
		return false
	}
	verdict := judge(c, observation{snapshot: s})
	c.learn(verdict, s)
	return s.waiting().object != nil || verdict != VerdictDrift
}

// HasObserved reports whether an object, as stored by a watch, is the result of the owner's last
// apply, or newer and as expected.
func (x *Index) HasObserved(owner Owner, key ObjectKey, kept any) bool {
	s, ok := kept.(*Snapshot)
	if !ok {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.findLocked(owner, compact(key))
	if c == nil || !c.is.known {
		return false
	}
	verdict := judge(c, observation{snapshot: s})
	return verdict == VerdictEcho || verdict == VerdictAsExpected
}

// commit ends an apply that succeeded, and judges the deferred event; nil if there is none.
func (x *Index) commit(owner Owner, key compactKey, applied Applied) *judgement {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.claimLocked(owner, key)
	c.commit(applied)
	return c.endApplyLocked()
}

// abort ends an apply that failed, and judges the deferred event; nil if there is none. An
// object that was never applied is as expected.
func (x *Index) abort(owner Owner, key compactKey) *judgement {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.claimLocked(owner, key)
	if c.is.known {
		return c.endApplyLocked()
	}
	x.forgetLocked(c)
	if c.deferredEvent == nil {
		return nil
	}
	return &judgement{owner: owner, verdict: VerdictAsExpected, observation: *c.deferredEvent, event: c.deferredEvent.snapshot}
}

// ExpectRemoval records that an object is to be removed, so that its deletion is no drift.
func (x *Index) ExpectRemoval(owner Owner, key ObjectKey) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.claimLocked(owner, compact(key)).is.expectsRemoval = true
}

// Forget removes the claim of an owner on an object.
func (x *Index) Forget(owner Owner, key ObjectKey) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if c := x.findLocked(owner, compact(key)); c != nil {
		x.forgetLocked(c)
	}
}

// forgetOwner removes an owner and its claims.
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

// holderLocked returns the holder of an owner, which it adds if necessary. x.mu must be held.
func (x *Index) holderLocked(owner Owner) *holder {
	h := x.holders[owner]
	if h == nil {
		h = &holder{owner: owner}
		x.holders[owner] = h
	}
	return h
}

// findLocked returns the claim of an owner on an object, or nil. x.mu must be held.
func (x *Index) findLocked(owner Owner, key compactKey) *claim {
	for c := x.claims[key]; c != nil; c = c.next {
		if c.holder.owner == owner {
			return c
		}
	}
	return nil
}

// claimLocked returns the claim of an owner on an object, which it adds if necessary. x.mu must
// be held.
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

// isDeferred reports whether the event with a snapshot waits for an apply.
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

// lookUp returns the key as the Index stores it, so that equal names share memory, the field managers that are expected in the
// object, the managers among them with unreverted drift, the tools whose additions count for each of them, and the checks of their health.
func (x *Index) lookUp(key compactKey) (known compactKey, managers, unreverted []string, tools map[string]ownership.Tools, checks []*healthcheck.Checks) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for c := x.claims[key]; c != nil; c = c.next {
		key = c.key
		if c.expected.owned.manager != 0 { // an object that is only to be removed has none
			managers = append(managers, c.holder.manager)
		}
		if c.is.unreverted {
			unreverted = append(unreverted, c.holder.manager)
		}
		if c.holder.checks != nil {
			checks = append(checks, c.holder.checks)
		}
		if len(c.holder.tools) > 0 {
			if tools == nil {
				tools = map[string]ownership.Tools{}
			}
			tools[c.holder.manager] = c.holder.tools
		}
	}
	return key, managers, unreverted, tools, checks
}

// asExpected reports whether an object has an owner, and whether all its owners find it as
// expected.
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
