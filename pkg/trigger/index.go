package trigger

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

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
}

// claim is what one owner expects of one object.
type claim struct {
	owner    Owner
	expected Applied
	// known is whether expected holds anything: false from before the first
	// apply of an object until it has returned.
	known bool
	// inFlight is whether an apply is under way; parked is the last event that
	// arrived meanwhile.
	inFlight bool
	parked   *observation
	// leaving is whether the object is to be removed: its deletion is expected.
	leaving bool
}

// observation is what an event says of an object.
type observation struct {
	snapshot *Snapshot
	deleted  bool
	// missed says that the deletion itself was not seen: a relist found the
	// object missing, and snapshot is older than that.
	missed bool
}

// Verdict says what an event means for an owner.
type Verdict string

const (
	// VerdictInOrder says that what is ours is as expected. Status updates, foreign
	// fields, relists and our own writes end here.
	VerdictInOrder Verdict = "InOrder"
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
)

// judge decides what an observation means for a claim.
func judge(c *claim, o observation) Verdict {
	switch {
	case c.inFlight:
		return VerdictInFlight
	case stale(c.expected, o):
		return VerdictStale
	case o.deleted && c.leaving:
		return VerdictGone
	case o.deleted:
		return VerdictDeleted
	case c.leaving || o.snapshot.DeletionTimestamp != nil:
		return VerdictTerminating
	case o.snapshot.owns(c.expected.Manager, c.expected.Digest):
		return VerdictInOrder
	default:
		return VerdictDrift
	}
}

// stale says whether the observation is older than the apply, or of it.
// ResourceVersions of one resource are ordered integers (KEP-5504); where a
// server's are not, nothing is stale.
func stale(applied Applied, o observation) bool {
	if applied.ResourceVersion == "" || o.missed {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(o.snapshot.ResourceVersion, applied.ResourceVersion)
	if err != nil {
		return false
	}
	return order < 0 || order == 0 && !o.deleted
}

// Index knows who owns which object and what each owner expects of it. It is
// safe for concurrent use.
type Index struct {
	// mu guards claims and objects, and what they hold.
	mu     sync.Mutex
	claims map[ObjectKey][]*claim
	// objects holds the objects of each owner that was loaded.
	objects map[Owner]map[ObjectKey]struct{}
}

// NewIndex makes an empty Index.
func NewIndex() *Index {
	return &Index{claims: map[ObjectKey][]*claim{}, objects: map[Owner]map[ObjectKey]struct{}{}}
}

// Load makes an owner known, with what it is known to have applied. An object of
// an owner that is known is the owner's only if it is claimed; see Factory.
func (x *Index) Load(owner Owner, applied map[ObjectKey]Applied) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.objects[owner] == nil {
		x.objects[owner] = make(map[ObjectKey]struct{}, len(applied))
	}
	for key, expected := range applied {
		c := x.claimLocked(owner, key)
		c.expected, c.known = expected, true
	}
}

// Loaded tells whether an owner is known.
func (x *Index) Loaded(owner Owner) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.objects[owner] != nil
}

// Begin notes that an apply of an object is about to be sent. Commit or Abort
// must follow.
func (x *Index) Begin(owner Owner, key ObjectKey, manager string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.claimLocked(owner, key)
	c.inFlight, c.leaving = true, false
	c.expected.Manager = manager
}

// Expected tells what an owner expects of an object.
func (x *Index) Expected(owner Owner, key ObjectKey) (Applied, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range x.claims[key] {
		if c.owner == owner {
			return c.expected, c.known
		}
	}
	return Applied{}, false
}

// InOrder tells whether an owner finds an object as expected, from what a watch
// keeps of it. What the owner expects nothing of is not in order. What is not
// judged yet counts as in order: its event is on its way, with what was changed.
func (x *Index) InOrder(owner Owner, key ObjectKey, kept any, found bool) bool {
	s, ok := kept.(*Snapshot)
	if !found || !ok {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range x.claims[key] {
		if c.owner == owner {
			return c.known && (s.found.Load() != nil || judge(c, observation{snapshot: s}) != VerdictDrift)
		}
	}
	return false
}

// commit ends an apply that succeeded, and judges the event that was parked
// meanwhile; nil if there was none.
func (x *Index) commit(owner Owner, key ObjectKey, applied Applied) (Verdict, *observation) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.claimLocked(owner, key)
	c.expected, c.known = applied, true
	return c.landLocked()
}

// abort ends an apply that failed, and judges the event that was parked
// meanwhile; nil if there was none. What was never applied is in order as it is.
func (x *Index) abort(owner Owner, key ObjectKey) (Verdict, *observation) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.claimLocked(owner, key)
	if !c.known {
		x.forgetLocked(owner, key)
		return VerdictInOrder, c.parked
	}
	return c.landLocked()
}

// landLocked ends the flight of an apply and judges what was parked, before any
// later event can be.
func (c *claim) landLocked() (Verdict, *observation) {
	parked := c.parked
	c.inFlight, c.parked = false, nil
	if parked == nil {
		return VerdictInOrder, nil
	}
	return judge(c, *parked), parked
}

// Leave notes that an object is to be removed.
func (x *Index) Leave(owner Owner, key ObjectKey) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.claimLocked(owner, key).leaving = true
}

// Forget drops what an owner expects of an object.
func (x *Index) Forget(owner Owner, key ObjectKey) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.forgetLocked(owner, key)
}

// forgetOwner drops everything that an owner expects.
func (x *Index) forgetOwner(owner Owner) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for key := range x.objects[owner] {
		x.forgetLocked(owner, key)
	}
	delete(x.objects, owner)
}

// judgement is the verdict on an event for one owner.
type judgement struct {
	owner   Owner
	verdict Verdict
}

// judge decides what an observation means for every owner of the object, and
// parks it where an apply is in flight.
func (x *Index) judge(key ObjectKey, o observation) []judgement {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := make([]judgement, 0, len(x.claims[key]))
	for _, c := range x.claims[key] {
		verdict := judge(c, o)
		if verdict == VerdictInFlight {
			c.parked = &o
		}
		all = append(all, judgement{owner: c.owner, verdict: verdict})
	}
	return all
}

// parked says whether the event that brought a snapshot waits for an apply.
func (x *Index) parked(key ObjectKey, s *Snapshot) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range x.claims[key] {
		if c.parked != nil && c.parked.snapshot == s {
			return true
		}
	}
	return false
}

// managers lists the field managers that are expected in an object.
func (x *Index) managers(key ObjectKey) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	claims := x.claims[key]
	if len(claims) == 0 {
		return nil
	}
	names := make([]string, 0, len(claims))
	for _, c := range claims {
		if c.expected.Manager != "" { // a claim on what is only to be removed has none
			names = append(names, c.expected.Manager)
		}
	}
	return names
}

// claimLocked finds or makes the claim of an owner on an object.
func (x *Index) claimLocked(owner Owner, key ObjectKey) *claim {
	for _, c := range x.claims[key] {
		if c.owner == owner {
			return c
		}
	}
	c := &claim{owner: owner}
	x.claims[key] = append(x.claims[key], c)
	if x.objects[owner] == nil {
		x.objects[owner] = map[ObjectKey]struct{}{}
	}
	x.objects[owner][key] = struct{}{}
	return c
}

func (x *Index) forgetLocked(owner Owner, key ObjectKey) {
	delete(x.objects[owner], key)
	claims := x.claims[key]
	for i, c := range claims {
		if c.owner == owner {
			claims = append(claims[:i:i], claims[i+1:]...)
			break
		}
	}
	if len(claims) == 0 {
		delete(x.claims, key)
	} else {
		x.claims[key] = claims
	}
}
