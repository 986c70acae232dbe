package watchregistry

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
)

// DefaultLinger is how long a watch outlives its last owner by default.
const DefaultLinger = 60 * time.Second

// Owner identifies who needs a watch.
type Owner = types.NamespacedName

// Key identifies a watch.
type Key struct {
	Cluster string
	GVR     schema.GroupVersionResource
}

// String names the watch for people: resource.version.group, and the cluster
// where it is not the local one.
func (k Key) String() string {
	name := k.GVR.Resource + "." + k.GVR.Version
	if k.GVR.Group != "" {
		name += "." + k.GVR.Group
	}
	if k.Cluster != "" {
		name += " at " + k.Cluster
	}
	return name
}

// Kind identifies a kind that an owner waits for.
type Kind struct {
	Cluster string
	GVK     schema.GroupVersionKind
}

// Cluster is what the registry needs of a cluster. Its methods must be safe
// for concurrent use.
type Cluster interface {
	// Dynamic is the client for the informers.
	Dynamic() dynamic.Interface
	// Metadata is the client for the watches on CustomResourceDefinitions and
	// APIServices.
	Metadata() metadata.Interface
	// ServesKind asks discovery whether gvk is served.
	ServesKind(ctx context.Context, gvk schema.GroupVersionKind) (bool, error)
	// ServesResource asks discovery whether gvr is served.
	ServesResource(ctx context.Context, gvr schema.GroupVersionResource) (bool, error)
	// Invalidate forgets what discovery said of an API group.
	Invalidate(group string)
}

// Options say what the watches of a Registry do.
type Options struct {
	// LabelSelector filters the objects of every watch, on the server. Defaults
	// to all objects.
	LabelSelector string
	// HandlerFor returns the callbacks of one watch. It is called once for each
	// start of a watch and must not block. Required.
	HandlerFor func(cluster string, gvr schema.GroupVersionResource) cache.ResourceEventHandler
	// TransformFor returns the function that reduces the objects of one watch
	// to what is kept of them. Defaults to keeping the objects as they are.
	TransformFor func(cluster string, gvr schema.GroupVersionResource) cache.TransformFunc
	// OnWatch tells an owner that a watch that it needs changed its state. It is
	// called once for each owner and change, must not block, and may be called
	// for several watches at the same time. Defaults to telling nobody.
	OnWatch func(owner Owner, key Key, status Status)
	// OnKind tells an owner that a kind that it waits for is served now. It must
	// not block. Defaults to telling nobody.
	OnKind func(owner Owner, kind Kind)
	// Linger is how long a watch outlives its last owner. Defaults to
	// DefaultLinger; a negative value means not at all.
	Linger time.Duration
	// Log gets a line when a watch cannot be set up; nothing in the steady
	// state. Defaults to no log.
	Log logr.Logger
}

// Registry is a set of watches and of the owners that need them. All its
// methods are safe for concurrent use and return without waiting for a server.
type Registry struct {
	opts Options
	// ctx ends when the registry stops; every goroutine ends with it.
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	// mu guards clusters, watches, owners and awaited, and the fields of the
	// watches that say so.
	mu       sync.Mutex
	clusters map[string]*kindWatcher
	watches  map[Key]*watch
	// owners holds the watches that each owner needs.
	owners map[Owner]map[Key]struct{}
	// awaited holds the owners that wait for each kind.
	awaited map[Kind]map[Owner]struct{}
}

// New makes a registry without clusters and watches.
func New(opts Options) *Registry {
	if opts.TransformFor == nil {
		opts.TransformFor = func(string, schema.GroupVersionResource) cache.TransformFunc { return nil }
	}
	if opts.OnWatch == nil {
		opts.OnWatch = func(Owner, Key, Status) {}
	}
	if opts.OnKind == nil {
		opts.OnKind = func(Owner, Kind) {}
	}
	if opts.Linger == 0 {
		opts.Linger = DefaultLinger
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Registry{
		opts:     opts,
		ctx:      ctx,
		cancel:   cancel,
		clusters: map[string]*kindWatcher{},
		watches:  map[Key]*watch{},
		owners:   map[Owner]map[Key]struct{}{},
		awaited:  map[Kind]map[Owner]struct{}{},
	}
}

// Start blocks until ctx ends, then stops every watch and waits for their
// goroutines. Watches run before Start too; it exists so that a
// controller-runtime manager can own the registry.
func (r *Registry) Start(ctx context.Context) error {
	<-ctx.Done()
	r.Stop()
	return nil
}

// Stop stops every watch and waits for their goroutines to end. Afterwards the
// registry starts nothing any more.
func (r *Registry) Stop() {
	r.mu.Lock() // no goroutine is added between the cancel and the wait
	r.cancel()
	r.mu.Unlock()
	r.wg.Wait()
}

// AddCluster makes a cluster known under name and begins to watch its
// CustomResourceDefinitions and APIServices. A name that is known already keeps
// its cluster.
func (r *Registry) AddCluster(name string, cluster Cluster) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.clusters[name]; known {
		return
	}
	k := newKindWatcher(r, name, cluster)
	r.clusters[name] = k
	r.goLocked(k.run)
}

// goLocked runs f in a goroutine that Stop waits for, unless the registry has
// stopped. r.mu must be held.
func (r *Registry) goLocked(f func(context.Context)) {
	if r.ctx.Err() != nil {
		return
	}
	r.wg.Go(func() { f(r.ctx) })
}

// Sync makes the set of watches that owner needs exactly want, starts the ones
// that do not run yet, and returns the present status of each. A watch that
// owner no longer needs stops after the linger time, unless others need it. A
// key whose cluster is unknown is Degraded.
func (r *Registry) Sync(owner Owner, want []Key) map[Key]Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	needed := make(map[Key]struct{}, len(want))
	statuses := make(map[Key]Status, len(want))
	for _, key := range want {
		needed[key] = struct{}{}
		statuses[key] = r.acquireLocked(owner, key)
	}
	for key := range r.owners[owner] {
		if _, still := needed[key]; !still {
			r.releaseLocked(owner, key)
		}
	}
	if len(needed) == 0 {
		delete(r.owners, owner)
	} else {
		r.owners[owner] = needed
	}
	return statuses
}

// Release empties the set of watches that owner needs and of the kinds that it
// waits for.
func (r *Registry) Release(owner Owner) {
	r.Sync(owner, nil)
	r.Await(owner, nil)
}

// Await makes the set of kinds that owner waits for exactly kinds. When the API
// server begins to serve one of them, OnKind is called once, and the owner
// waits for it no longer.
func (r *Registry) Await(owner Owner, kinds []Kind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for kind, owners := range r.awaited {
		if _, waits := owners[owner]; waits && !slices.Contains(kinds, kind) {
			delete(owners, owner)
			if len(owners) == 0 {
				delete(r.awaited, kind)
			}
		}
	}
	for _, kind := range kinds {
		if r.awaited[kind] == nil {
			r.awaited[kind] = map[Owner]struct{}{}
		}
		if _, waits := r.awaited[kind][owner]; waits {
			continue
		}
		r.awaited[kind][owner] = struct{}{}
		if k := r.clusters[kind.Cluster]; k != nil {
			// It may have come between the caller's look and now.
			k.check(kind.GVK.Group)
		}
	}
}

// Get returns what the watch key keeps of an object. It reports synced false
// while the watch has not seen every object; a missing object then means
// nothing.
func (r *Registry) Get(key Key, namespace, name string) (obj any, found, synced bool) {
	r.mu.Lock()
	w := r.watches[key]
	var informer cache.SharedIndexInformer
	if w != nil && w.hasSynced {
		informer, synced = w.informer, w.status.State == Synced
	}
	r.mu.Unlock()
	if informer == nil {
		return nil, false, false
	}
	storeKey := name
	if namespace != "" {
		storeKey = namespace + "/" + name
	}
	obj, found, err := informer.GetStore().GetByKey(storeKey)
	return obj, found && err == nil, synced
}

// Watch describes one watch of a Registry.
type Watch struct {
	Key    Key
	Status Status
	// Owners that need the watch, in order. None while it lingers.
	Owners []Owner
	// Objects that it keeps.
	Objects int
	// Incarnation counts the starts of its informer.
	Incarnation uint64
}

// Watches describes every watch, in the order of their keys.
func (r *Registry) Watches() []Watch {
	r.mu.Lock()
	all := make([]Watch, 0, len(r.watches))
	informers := make([]cache.SharedIndexInformer, 0, len(r.watches))
	for key, w := range r.watches {
		view := Watch{Key: key, Status: w.status, Incarnation: w.incarnation}
		for owner := range w.owners {
			view.Owners = append(view.Owners, owner)
		}
		all = append(all, view)
		informers = append(informers, w.informer)
	}
	r.mu.Unlock()
	for i, informer := range informers {
		if informer != nil {
			all[i].Objects = len(informer.GetStore().ListKeys())
		}
		slices.SortFunc(all[i].Owners, func(a, b Owner) int { return cmp.Compare(a.String(), b.String()) })
	}
	slices.SortFunc(all, func(a, b Watch) int { return cmp.Compare(a.Key.String(), b.Key.String()) })
	return all
}

// acquireLocked adds owner to the watch key, which it makes if need be.
func (r *Registry) acquireLocked(owner Owner, key Key) Status {
	w := r.watches[key]
	if w == nil {
		k := r.clusters[key.Cluster]
		if k == nil {
			return Status{
				State: Degraded, Reason: ReasonUnavailable,
				Message: fmt.Sprintf("cluster %q is not known", key.Cluster),
			}
		}
		w = newWatch(r, key, k.cluster)
		r.watches[key] = w
		w.startLocked()
		r.goLocked(w.run)
	}
	w.owners[owner] = struct{}{}
	if w.linger != nil {
		w.linger.Stop()
		w.linger = nil
	}
	return w.status
}

// releaseLocked takes owner from the watch key and, if it was the last one,
// lets the watch linger.
func (r *Registry) releaseLocked(owner Owner, key Key) {
	w := r.watches[key]
	if w == nil {
		return
	}
	delete(w.owners, owner)
	if len(w.owners) > 0 || w.linger != nil {
		return
	}
	if r.opts.Linger < 0 {
		r.stopLocked(w)
		return
	}
	w.linger = time.AfterFunc(r.opts.Linger, func() { r.reap(w) })
}

// reap stops a watch that nobody has asked for while it lingered.
func (r *Registry) reap(w *watch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(w.owners) == 0 && r.watches[w.key] == w {
		r.stopLocked(w)
	}
}

// stopLocked ends a watch and forgets it.
func (r *Registry) stopLocked(w *watch) {
	w.setLocked(released, "", nil)
	w.current.over.Store(true) // what its informer still has in its buffers is void
	w.cancel()
	delete(r.watches, w.key)
}
