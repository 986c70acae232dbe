package trigger

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"sync/atomic"
	"time"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/healthcheck"
	"github.com/vidra-operator/vidra/pkg/internal/ending"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// Snapshot is the form of an object in the store of a watch: the parts that identify the object and that its events are judged
// by.
type Snapshot struct {
	namespace unique.Handle[string]
	name      string
	version   version
	// owned are the digests of the fields of each of our field managers.
	owned []owned
	// pending holds the whole object until the event that brought it has been judged; nil if
	// the verdict does not need it.
	pending atomic.Pointer[pendingObject]
	// special is nil for an object that is Current and has no fields of other managers.
	special *special
}

// pendingObject are the parts that a verdict on an object may need in addition to its Snapshot.
type pendingObject struct {
	// received is when the event of the object was received.
	received time.Time
	// object is the object if it differs from the expectation of an owner, because an Event may report the change.
	object *unstructured.Unstructured
	// owned are the digests for managers whose drift is unreverted: their digest in the
	// Snapshot is over all of the object.
	owned []owned
	// skipped are the states of the object after the last one that the handler received and
	// before this one, in their order.
	skipped []*Snapshot
	// wasSensitive is whether one of all states since then had the annotation that withholds values.
	wasSensitive bool
	// healthDelay is the delay until the owners are enqueued because the health changed between all states since then, and othersChanged
	// whether the fields of other managers did: the status may have an intermediate state, from the store. 0 if the health was the same.
	healthDelay   time.Duration
	othersChanged bool
}

// maxSkipped is the maximum number of states of an object that wait to be judged.
const maxSkipped = 16

// Skip records an earlier state that no handler receives, so that the managers that made
// additions before an edit, and the editors, are known, and changes of the health in between. It implements watchregistry.Successor.
func (s *Snapshot) Skip(older any) {
	before, ok := older.(*Snapshot)
	if !ok {
		return
	}
	was := before.pending.Load()
	earlier := before.waiting()
	delay, others := sooner(earlier.healthDelay, healthDelay(before, s)), earlier.othersChanged || before.others() != s.others()
	if was == nil && s.pending.Load() == nil && !before.wasSensitive() && delay == 0 && !others {
		return // both are as expected, and this one has the same information
	}
	e := *s.waiting()
	e.healthDelay, e.othersChanged = delay, others
	e.skipped = appendSkipped(earlier.skipped, before)
	e.wasSensitive = before.wasSensitive()
	s.pending.Store(&e)
	if was != nil { // otherwise each state would keep all states before it
		alone := *was
		alone.skipped = nil
		before.pending.Store(&alone)
	}
}

// appendSkipped appends a state to the skipped states before it.
func appendSkipped(skipped []*Snapshot, last *Snapshot) []*Snapshot {
	all := append(slices.Clip(skipped), last)
	return all[max(0, len(all)-maxSkipped):]
}

// nothingPending is the pendingObject of every other Snapshot. It is never changed.
var nothingPending pendingObject

// waiting returns the parts of the object that are still to be judged; zero values for an object that was as expected.
func (s *Snapshot) waiting() *pendingObject { return cmp.Or(s.pending.Load(), &nothingPending) }

// has reports whether a manager owns exactly the expected fields.
func (s *Snapshot) has(expected owned) bool { return slices.Contains(s.owned, expected) }

// others returns the paths that other field managers own.
func (s *Snapshot) others() ownership.Paths {
	if s.special == nil {
		return ""
	}
	return ownership.Paths(s.special.text[s.special.messageBytes:])
}

// AppliedBy returns the name of an object in the store of a watch, and whether a field manager
// applied it.
func AppliedBy(kept any, manager string) (namespace, name string, applied bool) {
	s, ok := kept.(*Snapshot)
	if !ok {
		return "", "", false
	}
	id := identify(manager)
	return s.namespace.Value(), s.name, slices.ContainsFunc(s.owned, func(o owned) bool { return o.manager == id })
}

// DigestOf returns the digest of the fields that manager owns in an object, of the additions by
// tools, and of its break-glass annotations, so that a change of these is noticed. For
// unreverted, see Applied.
func DigestOf(u *unstructured.Unstructured, manager string, unreverted bool, tools ownership.Tools) ownership.Digest {
	if unreverted {
		return digestOfAll(u)
	}
	digest, _ := ownership.Of(u, manager)
	if len(tools) > 0 {
		if added, found := tools.Digest(u, manager); found {
			for i := range digest {
				digest[i] ^= added[i]
			}
		}
	}
	annotations := u.GetAnnotations()
	until, asks := annotations[v1alpha1.BreakGlassUntilAnnotation]
	if !asks {
		return digest
	}
	glass := sha256.Sum256([]byte(until + "\x00" + annotations[v1alpha1.BreakGlassReasonAnnotation]))
	for i := range digest {
		digest[i] ^= glass[i]
	}
	return digest
}

// digestOfAll returns a digest of an object without its status and the fields that change
// with every write.
func digestOfAll(u *unstructured.Unstructured) (digest ownership.Digest) {
	content := maps.Clone(u.Object)
	delete(content, "status")
	if metadata, ok := content["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
			delete(metadata, field)
		}
		content["metadata"] = metadata
	}
	text, err := json.Marshal(content) // sorts the keys
	if err != nil {
		text = []byte(u.GetResourceVersion()) // unstructured content can be encoded
	}
	sum := sha256.Sum256(text)
	copy(digest[:], sum[:])
	return digest
}

// GetObjectMeta returns the metadata that an informer reads from the objects in its store. It
// makes a Snapshot a metav1.ObjectMetaAccessor, which informers accept as an object.
func (s *Snapshot) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: s.namespace.Value(), Name: s.name, ResourceVersion: s.version.String()}
}

const (
	// snapshotBytes and ownedBytes are the sizes of a Snapshot and of one of its owned.
	snapshotBytes = 80
	ownedBytes    = 24
	// specialBytes is the size of a special without its text.
	specialBytes = 32
	// checkedBytes is the size of a checked without its message.
	checkedBytes = 64
	// slotBytes is the share of one entry in the map of a store, whose tables take
	// 40 KiB for 1024 entries and are between 7/16 and 7/8 full.
	slotBytes = 65
)

// Size estimates the memory that the store of an informer needs for the object, in bytes: the
// Snapshot, its key and its entry in the map.
func (s *Snapshot) Size() int {
	name := len(s.name)
	key := len(s.namespace.Value()) + len("/") + name
	size := snapshotBytes + ownedBytes*len(s.owned) + allocated(name) + allocated(key) + slotBytes
	if s.special != nil {
		size += specialBytes + allocated(len(s.special.text))
		for c := s.special.checked; c != nil; c = c.next {
			size += checkedBytes + allocated(len(c.health.Message))
		}
	}
	return size
}

// allocated returns the memory that n bytes occupy: it is allocated in steps.
func allocated(n int) int { return (n + 15) / 16 * 16 }

// TransformFor returns the function that reduces the objects of one watch to Snapshots. It runs
// on the goroutines of the informer, before the object is stored, and is safe for concurrent
// use.
func (f *Factory) TransformFor(cluster string, gvr schema.GroupVersionResource) cache.TransformFunc {
	watch := unique.Make(watched{cluster: cluster, gvr: gvr})
	return func(obj any) (any, error) {
		u, ok := obj.(*unstructured.Unstructured)
		if !ok {
			return obj, nil // a Snapshot already, or a tombstone
		}
		return f.snapshot(watch, u), nil
	}
}

// reduce returns the Snapshot of an object as no event of it waits to be judged, its key, the field
// managers of owners that do not revert it, and the tools whose additions count for each manager.
func (f *Factory) reduce(watch unique.Handle[watched], u *unstructured.Unstructured) (
	key compactKey, s *Snapshot, unreverted []string, tools map[string]ownership.Tools,
) {
	key, managers, unreverted, tools, checks := f.index.lookUp(compactKey{watch: watch, namespace: unique.Make(u.GetNamespace()), name: u.GetName()})
	applied := ownership.Managers(u, v1alpha1.FieldManagerPrefix)
	if len(managers) == 0 && !slices.ContainsFunc(applied, f.Installation.Applies) {
		applied = nil // the object is one of other installations alone
	}
	managers = withUnknown(managers, applied)
	var checking []*healthcheck.Check
	for _, of := range checks {
		if check := of.For(u.GroupVersionKind().GroupKind()); check != nil {
			checking = append(checking, check)
		}
	}
	s = &Snapshot{
		namespace: key.namespace, name: key.name, version: newVersion(u.GetResourceVersion()),
		owned: make([]owned, len(managers)), special: newSpecial(CheckHealth(u, nil), ownership.Others(u, v1alpha1.FieldManagerPrefix), ending.Succeeded(u), ownership.CoOwned(u, v1alpha1.FieldManagerPrefix), checkAll(u, checking)),
	}
	for i, manager := range managers {
		s.owned[i] = owned{manager: identify(manager), digest: DigestOf(u, manager, slices.Contains(unreverted, manager), tools[manager])}
	}
	return key, s, unreverted, tools
}

// snapshot returns the Snapshot of an object that an event brought.
func (f *Factory) snapshot(watch unique.Handle[watched], u *unstructured.Unstructured) *Snapshot {
	key, s, unreverted, tools := f.reduce(watch, u)
	// An object that is as expected needs no pendingObject. For any other, it is freed when the
	// event that brought the object was judged.
	switch claimed, asExpected := f.index.asExpected(key, s); {
	case !claimed:
		s.pending.Store(&pendingObject{received: time.Now()})
	case !asExpected:
		e := &pendingObject{received: time.Now()}
		if f.held.hold(u) { // otherwise the owner reads it from the API server
			e.object = u
		}
		for _, manager := range unreverted {
			e.owned = append(e.owned, owned{manager: identify(manager), digest: DigestOf(u, manager, false, tools[manager])})
		}
		s.pending.Store(e)
	}
	return s
}

// maxUnknown is the maximum number of unknown field managers of an object with a digest each. More are forged.
const maxUnknown = 16

// withUnknown returns the field managers that are expected in an object, and those that applied
// it and are still unknown.
func withUnknown(expected, applied []string) []string {
	unknown := slices.DeleteFunc(applied, func(name string) bool { return slices.Contains(expected, name) })
	if len(unknown) > maxUnknown {
		return expected
	}
	return append(expected, unknown...)
}
