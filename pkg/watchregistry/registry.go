package watchregistry

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
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
	// watch. The callbacks are called one at a time. They may be slow: what they
	// have not taken is merged for each object. Required.
	HandlerFor func(cluster string, gvr schema.GroupVersionResource) cache.ResourceEventHandler
	// TransformFor returns the function that reduces the objects of one watch
	// to what is kept of them (see Sized). It is called once for each watch.
	// Defaults to keeping the objects as they are.
	TransformFor func(cluster string, gvr schema.GroupVersionResource) cache.TransformFunc
	// OnWatch tells an owner that a watch that it needs changed its state or the
	// reason of it, once for each change. Defaults to telling nobody.
	OnWatch func(owner Owner, key Key, status Status)
	// OnKind tells an owner that a kind that it waits for is served now. Defaults
	// to telling nobody.
	OnKind func(owner Owner, kind Kind)
	// OnRelist tells an owner that a watch that it needs, and that was Synced before,
	// has asked for all objects anew: what was created and deleted again meanwhile,
	// the handler was never told of. Defaults to telling nobody.
	//
	// OnWatch, OnKind and OnRelist are called one at a time, in the order of what
	// happened, so none may block for long. They may call the registry, but not Stop.
	OnRelist func(owner Owner, key Key)
	// Linger is how long a watch outlives its last owner. Defaults to
	// DefaultLinger; a negative value means not at all.
	Linger time.Duration
	// Log gets a line of verbosity 1 when a watch changes its state, and nothing
	// in the steady state. Defaults to no log.
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
	// notifier calls owners back.
	notifier *notifier
	// inconsistencies and audits count what the audit found, and how often it
	// looked.
	inconsistencies, audits atomic.Uint64

	// mu guards clusters, watches, running, owners and awaited, and the fields of
	// the watches and sites that say so.
	mu       sync.Mutex
	clusters map[string]*site
	watches  map[Key]*watch
	// running holds the watches whose goroutine has not ended.
	running map[*watch]struct{}
	// owners holds the watches that each owner needs.
	owners map[Owner]map[Key]struct{}
	// awaited holds the owners that wait for each kind.
	awaited map[Kind]map[Owner]struct{}
}

// New makes a registry without clusters and watches. Stop it when it is no
// longer needed.
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
	if opts.OnRelist == nil {
		opts.OnRelist = func(Owner, Key) {}
	}
	if opts.Linger == 0 {
		opts.Linger = DefaultLinger
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &Registry{
		opts:     opts,
		ctx:      ctx,
		cancel:   cancel,
		notifier: newNotifier(),
		clusters: map[string]*site{},
		watches:  map[Key]*watch{},
		running:  map[*watch]struct{}{},
		owners:   map[Owner]map[Key]struct{}{},
		awaited:  map[Kind]map[Owner]struct{}{},
	}
	r.wg.Go(func() { r.notifier.run(ctx) })
	r.wg.Go(func() { r.audit(ctx) })
	return r
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
	for _, w := range r.watches {
		if w.linger != nil {
			w.linger.Stop()
		}
	}
	r.mu.Unlock()
	r.wg.Wait()
}

// goLocked runs f in a goroutine that Stop waits for, unless the registry has
// stopped. r.mu must be held.
func (r *Registry) goLocked(f func()) {
	if r.ctx.Err() != nil {
		return
	}
	r.wg.Go(f)
}

// Ensure adds the watches want to those that owner needs, starts the ones that
// do not run yet, and returns the present status of each. It is the first of the
// two phases of what may fail in between: Sync, when it has not failed, releases
// what is needed no longer. A key whose cluster is unknown is Degraded, and not
// noted.
func (r *Registry) Ensure(owner Owner, want []Key) map[Key]Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ensureLocked(owner, want)
}

// Sync makes the set of watches that owner needs exactly want: it does what
// Ensure does and releases the others, which stop after the linger time unless
// somebody else needs them.
func (r *Registry) Sync(owner Owner, want []Key) map[Key]Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	statuses := r.ensureLocked(owner, want)
	for key := range r.owners[owner] {
		if _, still := statuses[key]; !still {
			r.releaseLocked(owner, key)
		}
	}
	return statuses
}

func (r *Registry) ensureLocked(owner Owner, want []Key) map[Key]Status {
	statuses := make(map[Key]Status, len(want))
	for _, key := range want {
		statuses[key] = r.acquireLocked(owner, key)
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
		if s := r.clusters[kind.Cluster]; s != nil {
			// It may have come between the caller's look and now.
			s.check(kind.GVK.Group)
		}
	}
}

// Get returns what the watch key keeps of an object. It reports synced false
// while the watch has not seen every object; a missing object then means
// nothing.
func (r *Registry) Get(key Key, namespace, name string) (obj any, found, synced bool) {
	store, synced := r.store(key)
	if store == nil {
		return nil, false, false
	}
	storeKey := name
	if namespace != "" {
		storeKey = namespace + "/" + name
	}
	obj, found, err := store.GetByKey(storeKey)
	return obj, found && err == nil, synced
}

// List returns what the watch key keeps of all objects. It reports synced false while the
// watch has not seen every object.
func (r *Registry) List(key Key) (objs []any, synced bool) {
	store, synced := r.store(key)
	if store == nil {
		return nil, false
	}
	return store.List(), synced
}

// store returns the store of a watch that has been synced once, and whether it is synced;
// nil if it never was.
func (r *Registry) store(key Key) (store cache.Store, synced bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.watches[key]
	if w == nil || !w.phase.hasSynced {
		return nil, false
	}
	return w.life.informer.GetStore(), w.phase.state == Synced
}

// acquireLocked adds owner to the watch key, which it makes if need be.
func (r *Registry) acquireLocked(owner Owner, key Key) Status {
	w := r.watches[key]
	if w == nil {
		s := r.clusters[key.Cluster]
		if s == nil {
			return Status{
				State: Degraded, Reason: ReasonUnavailable,
				Message: fmt.Sprintf("cluster %q is not known", key.Cluster),
			}
		}
		w = r.startLocked(key, s)
	}
	if _, known := w.owners[owner]; !known {
		w.owners[owner] = struct{}{}
		if r.owners[owner] == nil {
			r.owners[owner] = map[Key]struct{}{}
		}
		r.owners[owner][key] = struct{}{}
		if w.phase.state == Degraded {
			w.life.breaker.wake() // somebody new asks
		}
	}
	if w.linger != nil {
		w.linger.Stop()
		w.linger = nil
		w.enterLocked(needed, "", nil)
	}
	return w.statusLocked()
}

// startLocked makes a watch and starts its goroutine, which does the rest.
func (r *Registry) startLocked(key Key, s *site) *watch {
	w := newWatch(r, key, s)
	r.watches[key] = w
	r.running[w] = struct{}{}
	r.goLocked(func() {
		w.run()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.running, w)
	})
	return w
}

// releaseLocked takes owner from the watch key and, if it was the last one,
// lets the watch linger.
func (r *Registry) releaseLocked(owner Owner, key Key) {
	r.disownLocked(owner, key)
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
	w.enterLocked(abandoned, "", nil)
	var timer *time.Timer
	timer = time.AfterFunc(r.opts.Linger, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if w.linger == timer { // nobody has come since
			r.stopLocked(w)
		}
	})
	w.linger = timer
}

// disownLocked takes the watch key from the set of owner.
func (r *Registry) disownLocked(owner Owner, key Key) {
	delete(r.owners[owner], key)
	if len(r.owners[owner]) == 0 {
		delete(r.owners, owner)
	}
}

// stopLocked ends a watch, whose owners have left, and forgets it.
func (r *Registry) stopLocked(w *watch) {
	w.linger = nil
	w.enterLocked(released, "", nil)
	w.cancel()
	delete(r.watches, w.key)
}
