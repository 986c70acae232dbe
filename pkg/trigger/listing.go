package trigger

import (
	"iter"
	"math/rand/v2"
	"unique"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// Listing compares the objects of one watch, as the pages of a LIST show them, with the expectations of their owners. It
// enqueues the owners of suspects: objects that differ, and expected objects that the LIST lacks. An event may report the same
// change a moment later, so a suspect is no drift yet. Only one goroutine may use it at a time.
type Listing struct {
	factory   *Factory
	watch     unique.Handle[watched]
	namespace string
	number    uint16
	// verify reports whether an object may be a suspect only because its digest was read from
	// a status.
	verify func() bool
	// listed is called with the version of the first page.
	listed func(resourceVersion string) (restored bool)
	// first is the version of the first page.
	first version
	// restored reports that the API server was restored or replaced.
	restored bool
}

// BeginList returns the function to call with the version of a LIST of all objects, whose answer is as new as etcd. It
// reports whether the version is lower than one that an owner expected when the LIST began: etcd was restored from a
// backup, or another cluster answers. The versions of the time before are forgotten then, as no object would ever
// be as new. An empty namespace means objects of all namespaces.
func (f *Factory) BeginList(cluster string, gvr schema.GroupVersionResource, namespace string) (listed func(resourceVersion string) (restored bool)) {
	watch := unique.Make(watched{cluster: cluster, gvr: gvr})
	highest := f.index.highest(watch, namespace)
	return func(resourceVersion string) bool {
		is := newVersion(resourceVersion)
		if order, ok := is.compare(highest); highest == (version{}) || !ok || order >= 0 {
			return false
		}
		f.index.forgetVersions(watch, namespace, is, highest)
		return true
	}
}

// highest returns the highest version that an owner expects of the objects of a watch.
func (x *Index) highest(watch unique.Handle[watched], namespace string) (highest version) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for c := range x.claimsOfLocked(watch, namespace) {
		if order, ok := c.expected.version.compare(highest); highest == (version{}) || ok && order > 0 {
			highest = c.expected.version
		}
	}
	return highest
}

// forgetVersions forgets the expected versions of the objects of a watch above one, up to another one.
func (x *Index) forgetVersions(watch unique.Handle[watched], namespace string, above, upTo version) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for c := range x.claimsOfLocked(watch, namespace) {
		order, ok := c.expected.version.compare(above)
		upper, okToo := c.expected.version.compare(upTo)
		if ok && okToo && order > 0 && upper <= 0 {
			c.expected.version = version{}
		}
	}
}

// claimsOfLocked returns the claims on the objects of a watch. x.mu must be held.
func (x *Index) claimsOfLocked(watch unique.Handle[watched], namespace string) iter.Seq[*claim] {
	return func(yield func(*claim) bool) {
		for key, first := range x.claims {
			if key.watch != watch || namespace != "" && key.namespace.Value() != namespace {
				continue
			}
			for c := first; c != nil; c = c.next {
				if !yield(c) {
					return
				}
			}
		}
	}
}

// NewListing returns the Listing of a watch, whose objects are in one namespace; empty means all.
// verify limits how many objects are suspects although they are as expected, because the process
// knows their digests from statuses alone, which other clients may write.
func (f *Factory) NewListing(cluster string, gvr schema.GroupVersionResource, namespace string, verify func() bool) *Listing {
	listed := f.BeginList(cluster, gvr, namespace)
	f.index.mu.Lock()
	defer f.index.mu.Unlock()
	f.index.listings++
	if f.index.listings == 0 { // no claim that was never listed counts as listed
		f.index.listings++
	}
	return &Listing{
		factory: f, watch: unique.Make(watched{cluster: cluster, gvr: gvr}), namespace: namespace,
		number: f.index.listings, verify: verify, listed: listed,
	}
}

// maxPageBytes is where Page stops to add up memory.
const maxPageBytes = 1 << 30

// Page compares the objects of one page, and returns how many bytes they take in memory.
func (l *Listing) Page(page *unstructured.UnstructuredList) (size int64) {
	if l.first == (version{}) {
		l.first = newVersion(page.GetResourceVersion())
		l.restored = l.listed(page.GetResourceVersion())
	}
	suspects := map[Owner]map[ObjectKey]string{}
	// At random, as verify may refuse the last ones, and some objects are never verified.
	for _, i := range rand.Perm(len(page.Items)) {
		u := &page.Items[i]
		size += memoryOf(u.Object, maxPageBytes)
		key, s, _, _ := l.factory.reduce(l.watch, u)
		for _, owner := range l.factory.index.listed(key, s, u.GetUID(), l) {
			addSuspect(suspects, owner, key, u.GetResourceVersion())
		}
	}
	l.factory.suspect(suspects)
	return size
}

// Restored reports whether the pages show that the API server was restored or replaced, so that its WATCHes miss changes.
func (l *Listing) Restored() bool { return l.restored }

// End compares the objects that the pages lacked, after the last one.
func (l *Listing) End() { l.factory.suspect(l.factory.index.unlisted(l)) }

func addSuspect(suspects map[Owner]map[ObjectKey]string, owner Owner, key compactKey, version string) {
	if suspects[owner] == nil {
		suspects[owner] = map[ObjectKey]string{}
	}
	suspects[owner][key.objectKey()] = version
}

// suspect enqueues the owners of suspects, as routine work.
func (f *Factory) suspect(suspects map[Owner]map[ObjectKey]string) {
	for owner, objects := range suspects {
		f.enqueueWith(Causes{Suspects: objects}, priorityqueue.AddOpts{}, owner)
	}
}

// listed notes that an object is in a page, and returns the owners that do not find it as
// expected. An owner whose apply is running has no use for an older state.
func (x *Index) listed(key compactKey, s *Snapshot, id types.UID, l *Listing) (suspecting []Owner) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for c := x.claims[key]; c != nil; c = c.next {
		c.listing = l.number
		if !c.is.known {
			continue
		}
		verdict, expected := judge(c, observation{snapshot: s}), c.expected.uid.get()
		if verdict == VerdictDrift || verdict == VerdictAsExpected && (expected != "" && expected != id || c.unverified() && l.verify()) {
			suspecting = append(suspecting, c.holder.owner)
		}
	}
	return suspecting
}

// unverified reports whether the expectation about the object was read from a status.
func (c *claim) unverified() bool {
	return !c.is.unreverted && (c.is.learned || c.expected.version == (version{}))
}

// unlisted returns the objects that were expected in a LIST and are missing from it.
func (x *Index) unlisted(l *Listing) map[Owner]map[ObjectKey]string {
	x.mu.Lock()
	defer x.mu.Unlock()
	suspects := map[Owner]map[ObjectKey]string{}
	for c := range x.claimsOfLocked(l.watch, l.namespace) {
		if c.listing == l.number || !c.is.known || c.is.inFlight || c.is.expectsRemoval {
			continue
		}
		if order, ok := c.expected.version.compare(l.first); ok && order > 0 {
			continue // it was applied after the LIST had begun
		}
		addSuspect(suspects, c.holder.owner, c.key, "")
	}
	return suspects
}
