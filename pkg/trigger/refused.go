package trigger

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/vidra-operator/vidra/pkg/ownership"
)

// Evidence is the part of an object, as stored by a watch, that an apply was refused for. While it is the same, the API server
// would refuse the apply again.
type Evidence struct {
	// manager is the field manager that owns the field; 0 if all of the object counts.
	manager managerID
	// found is whether the object names the manager; otherwise digest is over the fields of all managers.
	found  bool
	digest ownership.Digest
	// version is the resourceVersion of the object, if any change of it counts; empty otherwise.
	version string
}

// EvidenceOfVersion is the evidence in an object of a resourceVersion, where any change of the object counts.
func EvidenceOfVersion(version string) Evidence { return Evidence{version: version} }

// VersionIn returns the evidence in an object where any change of it counts. ok reports whether the object is a Snapshot.
func VersionIn(kept any) (e Evidence, ok bool) {
	s, ok := kept.(*Snapshot)
	if !ok || s == nil {
		return Evidence{}, false
	}
	return EvidenceOfVersion(s.version.String()), true
}

// EvidenceIn returns the evidence in an object: the fields of one field manager, or of all of them if manager is
// empty. ok reports whether the object is a Snapshot.
func EvidenceIn(kept any, manager string) (e Evidence, ok bool) {
	s, ok := kept.(*Snapshot)
	if !ok || s == nil {
		return Evidence{}, false
	}
	return s.evidence(identify(manager)), true
}

func (s *Snapshot) evidence(manager managerID) Evidence {
	if manager == 0 {
		return Evidence{digest: s.digestOfManagers()}
	}
	for _, o := range s.owned {
		if o.manager == manager {
			return Evidence{manager: manager, found: true, digest: o.digest}
		}
	}
	// The watch may be behind the apply. It may show next that the manager owned the fields, and has released them: the
	// object names it neither before nor after that.
	return Evidence{manager: manager, digest: s.digestOfManagers()}
}

// digestOfManagers returns a digest over the fields of all field managers that the Snapshot has.
func (s *Snapshot) digestOfManagers() (digest ownership.Digest) {
	all := slices.SortedFunc(slices.Values(s.owned), func(a, b owned) int {
		return cmp.Compare(a.manager, b.manager)
	})
	text := []byte(s.others())
	for _, o := range all {
		text = binary.BigEndian.AppendUint64(text, uint64(o.manager))
		text = append(text, o.digest[:]...)
	}
	sum := sha256.Sum256(text)
	copy(digest[:], sum[:])
	return digest
}

// refusals holds, for each object, the owners whose apply another field manager caused to be refused. It is safe
// for concurrent use.
type refusals struct {
	// mu guards objects and keys.
	mu      sync.Mutex
	objects map[compactKey]map[Owner]Evidence
	keys    map[Owner][]compactKey
}

// set makes the objects of an owner exactly those.
func (r *refusals) set(owner Owner, refused map[ObjectKey]Evidence) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range r.keys[owner] {
		r.removeLocked(owner, key)
	}
	delete(r.keys, owner)
	for key, evidence := range refused {
		if r.objects == nil {
			r.objects, r.keys = map[compactKey]map[Owner]Evidence{}, map[Owner][]compactKey{}
		}
		at := compact(key)
		if r.objects[at] == nil {
			r.objects[at] = map[Owner]Evidence{}
		}
		r.objects[at][owner] = evidence
		r.keys[owner] = append(r.keys[owner], at)
	}
}

// ended removes and returns the owners with other evidence of an object now. delays has the delay of each.
func (r *refusals) ended(key compactKey, s *Snapshot, deleted bool) (delays map[Owner]time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for owner, evidence := range r.objects[key] {
		now, delay := s.evidence(evidence.manager), time.Duration(0)
		if evidence.version != "" && !deleted { // its finalizers and conditions may change often
			now, delay = EvidenceOfVersion(s.version.String()), deletingDelay
		}
		if !deleted && now == evidence {
			continue
		}
		if delays == nil {
			delays = map[Owner]time.Duration{}
		}
		delays[owner] = delay
		r.removeLocked(owner, key)
	}
	return delays
}

func (r *refusals) removeLocked(owner Owner, key compactKey) {
	delete(r.objects[key], owner)
	if len(r.objects[key]) == 0 {
		delete(r.objects, key)
	}
}

// AwaitRefused makes the objects whose apply or removal was refused, or that are being deleted, exactly those. When such an
// object is deleted, or has other evidence, the owner is enqueued.
func (f *Factory) AwaitRefused(owner Owner, refused map[ObjectKey]Evidence) {
	f.refusals.set(owner, refused)
}
