package owners

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/internal/parallel"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/limits"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/source"
)

// Named answers which VidraResource has an object in its manifest, for every VidraResource of the API server in its latest
// generation, reconciled or unreconciled, of all shards and installations. It is safe for concurrent use.
type Named struct {
	// Cache has the VidraResources of the shard; API reads the others, and those that changed a moment ago.
	Cache, API client.Reader
	// Metadata lists the VidraResources.
	Metadata metadata.Interface
	// Sources are the watches of spec.manifestFrom.
	Sources *source.Watches
	// Preview returns the VidraResources as they would be, instead of the VidraResources of the API server; optional.
	Preview func(ctx context.Context) ([]*v1alpha1.VidraResource, error)
	// Parts reads the parts of a manifest, without a request for the sources that are absent. It fails if one may exist and is unreadable now, with
	// those that it has read.
	Parts func(ctx context.Context, vr *v1alpha1.VidraResource, absent func(source.Key) bool) ([]desired.Part, error)

	// parsing is held while a large manifest is parsed: each takes much memory, and every removal may need those of all tenants.
	parsing sync.Mutex

	// manifests has the names in manifests, as manifest, by the name of the VidraResource.
	manifests sync.Map
	// parsed has the texts that were parsed last, as parsedText, by the name of the VidraResource, except those in manifests: the texts of sources, and
	// unparsable ones.
	parsed sync.Map
	// begin makes listing.
	begin sync.Once
	// listing is the turn to list the VidraResources, which guards latest: a channel, as it is waited for.
	listing chan struct{}
	latest  listing
}

// manifest are the objects that the manifest of a generation names.
type manifest struct {
	uid        types.UID
	generation int64
	// text is the hash of spec.manifest: where etcd was restored from a backup, two specs have one generation.
	text uint64
	// sources are the versions of the parts in spec.manifestFrom.
	sources map[source.Key]string
	// objects are the hashes of the identities, sorted. Two identities with one hash count as one object.
	objects []uint64
}

// parsedText is a manifest as its texts were parsed.
type parsedText struct {
	// manifest has no objects if it is unparsable.
	manifest   manifest
	unparsable bool
	// texts is the hash of all texts.
	texts uint64
}

// listing are the VidraResources of the API server, as of began or later.
type listing struct {
	began time.Time
	all   map[string]listed
}

type listed struct {
	uid        types.UID
	generation int64
	deleting   bool
}

// Receiver is a VidraResource whose latest generation has an object in its manifest.
type Receiver struct {
	VidraResource *v1alpha1.VidraResource
	// Mentioned reports that its manifest is unparsable, and may have the object by desired.Part.MayHave.
	Mentioned bool
	// Elsewhere reports that its destination is another URL, perhaps of the same cluster.
	Elsewhere bool
	// Unknown is the obstacle to knowing whether it has, or nil.
	Unknown error
	// Empty reports that Unknown is the absence of content: a source of its manifest is still absent, or its kind is unserved.
	Empty bool
	// Unidentified is the error that leaves open whether its destination is the cluster of the object; nil if it is the
	// same cluster. Finder.Identified sets it.
	Unidentified error
}

// seed is the seed of the hashes of identities.
var seed = maphash.MakeSeed()

// hashes returns the sorted hashes of identities.
func hashes(ids iter.Seq[object.Identity]) []uint64 {
	var all []uint64
	for id := range ids {
		all = append(all, maphash.Comparable(seed, id))
	}
	slices.Sort(all)
	return slices.Clip(slices.Compact(all))
}

// question are the objects that a question about many manifests has, by their hashes.
type question map[uint64][]object.Identity

// about returns the question about objects.
func about(ids ...object.Identity) question {
	q := make(question, len(ids))
	for _, id := range ids {
		sum := maphash.Comparable(seed, id)
		q[sum] = append(q[sum], id)
	}
	return q
}

// where returns the objects of the question for which has is true.
func (q question) where(has func(object.Identity) bool) (some []object.Identity) {
	for _, ids := range q {
		for _, id := range ids {
			if has(id) {
				some = append(some, id)
			}
		}
	}
	return some
}

// named returns the objects of a question that the manifest names. Its time is that of the shorter list.
func (m manifest) named(q question) (some []object.Identity) {
	if len(m.objects) < len(q) {
		for _, sum := range m.objects {
			some = append(some, q[sum]...)
		}
		return some
	}
	for sum, ids := range q {
		if _, found := slices.BinarySearch(m.objects, sum); found {
			some = append(some, ids...)
		}
	}
	return some
}

// Note notes the objects that the manifest of a VidraResource names, as a reconcile read it from its sources.
func (n *Named) Note(vr *v1alpha1.VidraResource, sources map[source.Key]string, ids []object.Identity) {
	n.manifests.Store(vr.Name, manifest{vr.UID, vr.Generation, maphash.String(seed, vr.Spec.Manifest), sources, hashes(slices.Values(ids))})
}

// isOf reports whether the manifest is of the spec of a VidraResource.
func (m manifest) isOf(vr *v1alpha1.VidraResource) bool {
	return m.uid == vr.UID && m.generation == vr.Generation && m.text == maphash.String(seed, vr.Spec.Manifest)
}

// Forget forgets a VidraResource.
func (n *Named) Forget(name string) {
	n.manifests.Delete(name)
	n.parsed.Delete(name)
}

// Receivers returns, for objects of the cluster at, the VidraResources other than owner that have the object in their
// manifests, the most certain first. The API server had these VidraResources at since, or later. It fails if the LIST
// fails: other VidraResources may have the objects, too.
func (n *Named) Receivers(ctx context.Context, owner, at string, ids []object.Identity, since time.Time) (map[object.Identity][]Receiver, error) {
	receivers, latest, asked := map[object.Identity][]Receiver{}, n.Sources.Latest(), about(ids...)
	var adding sync.Mutex // guards receivers
	find := func(reads context.Context, vr *v1alpha1.VidraResource) error {
		named, parsed, err := n.naming(ctx, vr, n.read(reads, vr, latest), asked)
		receiver := Receiver{VidraResource: vr, Mentioned: !parsed, Elsewhere: !isAt(vr, at)}
		adding.Lock()
		defer adding.Unlock()
		for _, id := range named {
			receivers[id] = append(receivers[id], receiver)
		}
		if receiver.Unknown, receiver.Empty = err, source.IsEmpty(err); err != nil {
			has := sets.New(named...)
			for _, id := range asked.where(func(id object.Identity) bool { return !has.Has(id) }) {
				receivers[id] = append(receivers[id], receiver)
			}
		}
		return err
	}
	var silent atomic.Int32 // reads without an answer
	var caught parallel.Panic
	var finds errgroup.Group
	finds.SetLimit(parallelReads)
	err := n.visit(ctx, owner, since, func(vr *v1alpha1.VidraResource) {
		switch {
		case !vr.DeletionTimestamp.IsZero():
		case len(vr.Spec.ManifestFrom) == 0:
			_ = find(ctx, vr) // it is in the receiver
		default:
			latest.Expect(ctx, slices.DeleteFunc(source.KeysOf(vr), func(key source.Key) bool { _, known := n.Sources.Revision(key); return !known })...)
			finds.Go(func() error {
				defer caught.Catch()
				timeout := readTimeout
				if silent.Load() >= manySilent {
					timeout = shortReadTimeout
				}
				reads, cancel := context.WithTimeout(ctx, timeout)
				defer cancel()
				if err := find(reads, vr); err != nil && reads.Err() != nil {
					silent.Add(1)
				}
				return nil
			})
		}
	})
	_ = finds.Wait()
	caught.Raise()
	for _, all := range receivers {
		slices.SortFunc(all, Receiver.compare)
	}
	return receivers, err
}

// visit calls visit with the VidraResources other than owner, as the API server had them at since, or later.
func (n *Named) visit(ctx context.Context, owner string, since time.Time, visit func(*v1alpha1.VidraResource)) error {
	if n.Preview != nil {
		all, err := n.Preview(ctx)
		for _, vr := range all {
			if vr.Name != owner {
				visit(vr)
			}
		}
		return err
	}
	all, err := n.list(ctx, since)
	if err != nil {
		return fmt.Errorf("list the VidraResources: %w", err)
	}
	for name, is := range all {
		if name == owner || is.deleting {
			continue
		}
		switch vr, err := n.get(ctx, name, is); {
		case err != nil:
			return fmt.Errorf("read VidraResource %s: %w", name, err)
		case vr != nil:
			visit(vr)
		}
	}
	return nil
}

// reading is the manifest of a VidraResource, which is read when its parts are first asked for, and parsed when its objects are. It is safe for
// concurrent use.
type reading struct {
	latest  *source.Latest
	parts   func() ([]desired.Part, error)
	objects func() (*desired.Parsed, error)
}

// read returns the manifest of a VidraResource. Its objects are those of the parts that can be read.
func (n *Named) read(ctx context.Context, vr *v1alpha1.VidraResource, latest *source.Latest) reading {
	parts := sync.OnceValues(func() ([]desired.Part, error) { return n.partsOf(ctx, vr, latest) })
	return reading{latest, parts, sync.OnceValues(func() (*desired.Parsed, error) {
		all, _ := parts()
		return desired.Parse(vr, all)
	})}
}

// Names reports whether a VidraResource has an object in its manifest, or may have.
func (n *Named) Names(ctx context.Context, vr *v1alpha1.VidraResource, id object.Identity) bool {
	return n.names(ctx, vr, n.read(ctx, vr, n.Sources.Latest()), id)
}

// names is Names for a manifest that may have been read before.
func (n *Named) names(ctx context.Context, vr *v1alpha1.VidraResource, is reading, id object.Identity) bool {
	named, _, err := n.naming(ctx, vr, is, about(id))
	return err != nil || len(named) > 0
}

// wanted returns an object as a manifest has it; nil if the object is absent or the manifest unreadable.
func (r reading) wanted(id object.Identity) *unstructured.Unstructured {
	if _, unread := r.parts(); unread != nil {
		return nil
	}
	objects, err := r.objects()
	if err != nil {
		return nil
	}
	located, err := objects.Locate(id)
	if err != nil || located == nil {
		return nil
	}
	return located.Object.Unstructured
}

// compare orders certain receivers before others, then by name.
func (r Receiver) compare(other Receiver) int {
	rank := func(r Receiver) int {
		switch {
		case r.Unknown != nil:
			return 2
		case r.Mentioned:
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(rank(r), rank(other)), cmp.Compare(r.VidraResource.Name, other.VidraResource.Name))
}

// manyNames is the number of names from which it takes less time to parse a manifest than to search it for each of them.
const manyNames = 64

// naming returns the objects of a question that a VidraResource has in its manifest. An unparsable
// manifest has the objects that it mentions. The error is the reason for which it may have more of them.
func (n *Named) naming(ctx context.Context, vr *v1alpha1.VidraResource, is reading, asked question) (named []object.Identity, parsed bool, err error) {
	last, _ := n.manifests.Load(vr.Name)
	m, known := last.(manifest)
	if known && n.current(ctx, m, vr, is.latest) {
		return m.named(asked), true, nil
	}
	if vr.RevisionTo() != 0 {
		has, err := ofRevision(vr)
		return asked.where(has), true, err
	}
	parts, unread := is.parts()
	if unread != nil && known && m.isOf(vr) { // Vidra keeps the objects of the last read
		if source.IsEmpty(unread) {
			return m.named(asked), true, nil
		}
		return m.named(asked), true, unread // the next read may have more
	}
	mentions := func(id object.Identity) bool {
		return slices.ContainsFunc(parts, func(p desired.Part) bool { return p.Mentions(id.Name) })
	}
	if len(asked) < manyNames && len(asked.where(mentions)) == 0 {
		return nil, true, unread
	}
	p := n.parse(vr, is, parts)
	if p.unparsable {
		may := func(id object.Identity) bool {
			return slices.ContainsFunc(parts, func(p desired.Part) bool { return p.MayHave(vr, id) })
		}
		return asked.where(may), false, unread // its reconcile reports the error
	}
	if len(vr.Spec.ManifestFrom) == 0 {
		n.manifests.Store(vr.Name, p.manifest)
	}
	return p.manifest.named(asked), true, unread
}

// parse returns the objects in the parts of a manifest. The same texts are parsed once, and large ones one at a time.
func (n *Named) parse(vr *v1alpha1.VidraResource, is reading, parts []desired.Part) parsedText {
	sum := desired.SumOfParts(seed, parts)
	known := func() (parsedText, bool) {
		last, _ := n.parsed.Load(vr.Name)
		p, found := last.(parsedText)
		return p, found && p.manifest.isOf(vr) && p.texts == sum
	}
	if p, found := known(); found {
		return p
	}
	defer n.parseLarge(parts)()
	if p, found := known(); found { // meanwhile
		return p
	}
	p := parsedText{manifest: manifest{uid: vr.UID, generation: vr.Generation, text: maphash.String(seed, vr.Spec.Manifest)}, texts: sum}
	if all, err := is.objects(); err != nil {
		p.unparsable = true
	} else {
		p.manifest.objects = hashes(all.Identities())
	}
	if p.unparsable || len(vr.Spec.ManifestFrom) > 0 {
		n.parsed.Store(vr.Name, p)
	}
	return p
}

// parseLarge waits for the turn to parse parts, if they are large. done ends it.
func (n *Named) parseLarge(parts []desired.Part) (done func()) {
	if desired.WeightOfParts(parts) <= limits.LightWeight {
		return func() {}
	}
	n.parsing.Lock()
	return n.parsing.Unlock
}

// parseNow parses a manifest that was read.
func (n *Named) parseNow(is reading) {
	parts, _ := is.parts()
	defer n.parseLarge(parts)()
	is.objects() //nolint:errcheck // the error comes with the objects again
}

// ofRevision returns the function that reports whether a VidraResource has an object in the earlier revision that it applies. Its own reconcile
// alone reads that; to others, the inventory shows all of it once all is applied.
func ofRevision(vr *v1alpha1.VidraResource) (has func(object.Identity) bool, err error) {
	if !vr.IsReady() || len(vr.Status.ManagedResources) != int(vr.Status.Objects) {
		return func(object.Identity) bool { return false }, fmt.Errorf("VidraResource %s applies revision %d (spec.revision.to), and is not Ready", vr.Name, vr.RevisionTo())
	}
	ids := make(sets.Set[object.Identity], len(vr.Status.ManagedResources))
	for i := range vr.Status.ManagedResources {
		ids.Insert(object.IdentityOf(&vr.Status.ManagedResources[i]))
	}
	return ids.Has, nil
}

// partsOf returns the parts of the manifest of a VidraResource.
func (n *Named) partsOf(ctx context.Context, vr *v1alpha1.VidraResource, latest *source.Latest) ([]desired.Part, error) {
	if len(vr.Spec.ManifestFrom) == 0 {
		return []desired.Part{desired.InlinePart(vr)}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return n.Parts(ctx, vr, func(key source.Key) bool { // one request may have the answers for many VidraResources
		if revision, known := n.Sources.Revision(key); !known || revision != "" {
			return false
		}
		revision, err := latest.Revision(ctx, key)
		return err == nil && revision == ""
	})
}

// The server of an artifact may be one of another tenant, and leave all requests without an answer. readTimeout is the time for the parts of one other
// VidraResource, and shortReadTimeout once manySilent reads for a removal had no answer. parallelReads manifests are in memory at a time.
const (
	readTimeout      = 5 * time.Second
	shortReadTimeout = time.Second
	parallelReads    = 8
	manySilent       = 2 * parallelReads
)

// current reports whether m is from the latest generation of a VidraResource, with the present versions of its parts. The API server is asked for these
// where the watches show no change: they may be behind.
func (n *Named) current(ctx context.Context, m manifest, vr *v1alpha1.VidraResource, latest *source.Latest) bool {
	if !m.isOf(vr) {
		return false
	}
	if vr.RevisionTo() != 0 { // the sources are read after the release
		return true
	}
	for _, key := range source.KeysOf(vr) {
		if version, known := n.Sources.Revision(key); !known || version != m.sources[key] {
			return false
		}
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	for _, key := range source.KeysOf(vr) {
		if version, err := latest.Revision(ctx, key); err != nil || version != m.sources[key] {
			return false
		}
	}
	return true
}

// get returns a VidraResource in the generation that was listed, or a later one; nil once it is gone.
func (n *Named) get(ctx context.Context, name string, is listed) (*v1alpha1.VidraResource, error) {
	vr, err := Cached(ctx, n.Cache, name)
	if err != nil || vr != nil && vr.UID == is.uid && vr.Generation >= is.generation {
		return vr, err
	}
	vr = &v1alpha1.VidraResource{}
	if err = n.API.Get(ctx, client.ObjectKey{Name: name}, vr); object.IsAbsent(err, name) {
		return nil, nil
	}
	return vr, err
}

// listTimeout is how long a list may take.
const listTimeout = 30 * time.Second

// list returns the VidraResources of the API server as of since, or later. Callers that wait for the same list share it. It fails while the cache is still
// to show that etcd was restored from a backup: its generations count for nothing then.
func (n *Named) list(ctx context.Context, since time.Time) (map[string]listed, error) {
	n.begin.Do(func() { n.listing = make(chan struct{}, 1) })
	select {
	case n.listing <- struct{}{}:
		defer func() { <-n.listing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if !n.latest.began.Before(since) && n.latest.all != nil {
		return n.latest.all, nil
	}
	cached := &v1alpha1.VidraResourceList{}
	if err := n.Cache.List(ctx, cached, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	before := make(map[string]string, len(cached.Items)) // the versions that the list must reach
	for i := range cached.Items {
		before[cached.Items[i].Name] = cached.Items[i].ResourceVersion
	}
	latest := listing{began: time.Now(), all: map[string]listed{}}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var restored error
	if _, err := cluster.VisitMetadata(ctx, n.Metadata.Resource(v1alpha1.Resource), func(m *metav1.PartialObjectMetadata) {
		latest.all[m.Name] = listed{m.UID, m.Generation, !m.DeletionTimestamp.IsZero()}
		if cluster.Older(m.ResourceVersion, before[m.Name]) {
			restored = fmt.Errorf("VidraResource %s is older than before, as the API server was restored or replaced", m.Name)
		}
	}); err != nil || restored != nil {
		return nil, cmp.Or(err, restored)
	}
	n.latest = latest
	n.forgetGone(ctx, latest)
	return latest.all, nil
}

// forgetGone forgets the manifests of VidraResources outside of a list and the cache: no reconcile forgets them for another shard.
func (n *Named) forgetGone(ctx context.Context, latest listing) {
	for _, known := range []*sync.Map{&n.manifests, &n.parsed} {
		for key := range known.Range {
			name, _ := key.(string)
			if _, listed := latest.all[name]; listed {
				continue
			}
			if vr, err := Cached(ctx, n.Cache, name); vr == nil && err == nil {
				known.Delete(name)
			}
		}
	}
}
