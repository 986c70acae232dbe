package watchregistry

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/vidra-operator/vidra/pkg/internal/relation"
)

// DefaultLinger is how long a watch runs on without an owner by default.
const DefaultLinger = 60 * time.Second

// Owner identifies an owner of watches.
type Owner = types.NamespacedName

// Key identifies a watch.
type Key struct {
	Cluster string
	GVR     schema.GroupVersionResource
	// Namespace limits the watch to the objects of one namespace, so that it needs rights in that namespace alone. Empty for
	// the objects of all namespaces, and for cluster-scoped kinds.
	Namespace string
}

// String returns resource.version.group, with the namespace if the watch has one, and with the
// cluster if it is remote.
func (k Key) String() string {
	name := k.GVR.Resource + "." + k.GVR.Version
	if k.GVR.Group != "" {
		name += "." + k.GVR.Group
	}
	if k.Namespace != "" {
		name += " in namespace " + k.Namespace
	}
	if k.Cluster != "" {
		name += " at " + k.Cluster
	}
	return name
}

// Kind identifies a kind that an owner awaits.
type Kind struct {
	Cluster string
	GVK     schema.GroupVersionKind
}

// Cluster is the part of a cluster that the registry uses. Its methods must be safe for
// concurrent use.
type Cluster interface {
	// Dynamic returns the client for the informers.
	Dynamic() dynamic.Interface
	// Metadata returns the client for the watches on CustomResourceDefinitions and
	// APIServices.
	Metadata() metadata.Interface
	// ServesKind asks discovery whether gvk is served.
	ServesKind(ctx context.Context, gvk schema.GroupVersionKind) (bool, error)
	// ServesResource asks discovery whether gvr is served.
	ServesResource(ctx context.Context, gvr schema.GroupVersionResource) (bool, error)
	// Invalidate discards the cached discovery of an API group.
	Invalidate(group string)
}

// Options configure the watches of a Registry.
type Options struct {
	// LabelSelector filters the objects of every watch, on the server. Defaults to all
	// objects.
	LabelSelector string
	// HandlerFor returns the callbacks of a watch. It is called once for each watch. The
	// callbacks are called one at a time. They may be slow: pending events are merged for
	// each object. Required.
	HandlerFor func(cluster string, gvr schema.GroupVersionResource) cache.ResourceEventHandler
	// TransformFor returns the function that reduces the objects of a watch before they are
	// stored (see Sized). It is called once for each watch. Defaults to storing the objects
	// unchanged.
	TransformFor func(cluster string, gvr schema.GroupVersionResource) cache.TransformFunc
	// OnWatch is called once for each owner of a watch whose state or reason changed. Optional.
	OnWatch func(owner Owner, key Key, status Status)
	// OnKind is called when a kind that an owner awaits is served. Optional.
	OnKind func(owner Owner, kind Kind)
	// OnRelist is called for each owner of a watch that was Synced and has listed all
	// objects again: the handler received no events of objects that were created and
	// deleted in between. Optional.
	//
	// OnWatch, OnKind and OnRelist are called one at a time, in the order of the changes, so
	// each must return soon. They may call the registry, except Stop.
	OnRelist func(owner Owner, key Key)
	// OnList is called before the LIST of a watch is sent whose answer is as new as etcd. The function that it returns is
	// called with the resourceVersion of the list, before the handler receives its objects. Optional.
	OnList func(key Key) (listed func(resourceVersion string))
	// Linger is how long a watch runs on without an owner. Defaults to DefaultLinger; with
	// a negative value a watch stops at once.
	Linger time.Duration
	// Log receives a line of verbosity 1 when a watch changes its state, and nothing in the
	// steady state. Defaults to no log.
	Log logr.Logger
}

// Registry is a set of watches and of the owners that need them. Its methods are safe for
// concurrent use and return without waiting for a server.
type Registry struct {
	opts Options
	// ctx ends when the registry stops, and with it every goroutine.
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	// notifier runs the callbacks of the owners.
	notifier *notifier
	counts   registryCounts

	// mu guards the fields below, and the fields of watches and clusterWatches that say so.
	mu       sync.Mutex
	clusters map[string]*clusterWatches
	watches  map[Key]*watch
	// running holds the watches whose goroutine still runs.
	running map[*watch]struct{}
	// needed relates the owners to the watches that they need, awaited to the kinds that they
	// await. needed has keys of watches alone.
	needed  relation.Relation[Owner, Key]
	awaited relation.Relation[Owner, Kind]
}

// registryCounts count the faults that a Registry found.
type registryCounts struct {
	// audits counts the audits, inconsistencies their findings.
	inconsistencies, audits atomic.Uint64
	// incompleteHandOvers counts the informers that stopped before their handler had
	// received every event.
	incompleteHandOvers atomic.Uint64
}

// New returns an empty registry. The caller must stop it.
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
	if opts.OnList == nil {
		opts.OnList = func(Key) func(string) { return func(string) {} }
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
		clusters: map[string]*clusterWatches{},
		watches:  map[Key]*watch{},
		running:  map[*watch]struct{}{},
	}
	r.wg.Go(func() { r.notifier.run(ctx) })
	r.wg.Go(func() { r.audit(ctx) })
	return r
}

// Start blocks until ctx ends, then stops every watch and waits for their goroutines. It
// makes the Registry a runnable of a controller-runtime manager; watches run before Start
// too.
func (r *Registry) Start(ctx context.Context) error {
	<-ctx.Done()
	r.Stop()
	return nil
}

// Stop stops every watch and waits for their goroutines. A stopped registry starts nothing.
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

// Get returns an object from the store of a watch. synced reports whether the watch has listed
// every object; a missing object means nothing before that.
func (r *Registry) Get(key Key, namespace, name string) (obj any, found, synced bool) {
	store, synced := r.store(key)
	if store == nil {
		return nil, false, false
	}
	obj, found, err := store.GetByKey(cache.NewObjectName(namespace, name).String())
	return obj, found && err == nil, synced
}

// List returns all objects in the store of a watch. synced reports whether the watch has listed
// every object.
func (r *Registry) List(key Key) (objs []any, synced bool) {
	store, synced := r.store(key)
	if store == nil {
		return nil, false
	}
	return store.List(), synced
}

// store returns the store of a watch and whether the watch is synced; nil before the watch is
// synced for the first time.
func (r *Registry) store(key Key) (store cache.Store, synced bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.watches[key]
	if w == nil || !w.shown.phase.hasSynced {
		return nil, false
	}
	return w.current.informer.GetStore(), w.shown.phase.state == Synced
}
