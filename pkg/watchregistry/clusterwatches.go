package watchregistry

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/vidra-operator/vidra/pkg/cluster"
)

// apiServices define, with cluster.Definitions, which kinds the API server serves.
var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

const (
	// The API server publishes a new kind in discovery some time after its
	// CustomResourceDefinition changed. So a group that is defined is checked again up to
	// maxRechecks times, with a backoff between recheckMin and recheckMax.
	recheckMin  = 20 * time.Millisecond
	recheckMax  = 500 * time.Millisecond
	maxRechecks = 24
)

// clusterWatches holds the shared parts of the watches of one cluster. It also notices when the cluster begins or ceases to
// serve a kind.
type clusterWatches struct {
	registry *Registry
	name     string
	client   Cluster
	// ctx ends when the cluster is removed, or the registry stops.
	ctx         context.Context
	cancel      context.CancelFunc
	listLimiter *listLimiter
	// pages bounds how many pages of lists are read at a time where lists that are not streamed are read in pages; nil
	// elsewhere.
	pages *semaphore.Weighted
	// backoffs space the requests of the watches on cluster.Definitions and apiServices.
	backoffs map[schema.GroupVersionResource]*requestBackoff
	// noticing counts the watches on cluster.Definitions and apiServices that have listed and work.
	noticing atomic.Int32
	// groups is the queue of API groups to check.
	groups workqueue.TypedRateLimitingInterface[string]
	// definitions counts the CustomResourceDefinitions and APIServices of each API group. The registry's mutex guards it.
	definitions map[string]int
	// stored counts the objects of each resource, whose watches may be one for each namespace.
	// The registry's mutex guards it.
	stored map[schema.GroupVersionResource]*atomic.Int64
}

func newClusterWatches(r *Registry, name string, client Cluster) *clusterWatches {
	c := &clusterWatches{
		registry: r, name: name, client: client, listLimiter: newListLimiter(),
		backoffs: map[schema.GroupVersionResource]*requestBackoff{cluster.Definitions: newRequestBackoff(), apiServices: newRequestBackoff()},
		groups: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](recheckMin, recheckMax)),
		definitions: map[string]int{},
	}
	if name != "" {
		c.pages = semaphore.NewWeighted(maxConcurrentPages)
	}
	c.ctx, c.cancel = context.WithCancel(r.ctx)
	context.AfterFunc(c.ctx, c.groups.ShutDown)
	return c
}

// maxRemoteObjects is the limit of objects of one kind in a remote cluster, which may be
// hostile and send objects without end.
const maxRemoteObjects = 50_000

// maxObjects returns the limit of objects of one kind; zero means no limit.
func (c *clusterWatches) maxObjects() int64 {
	if c.name == "" {
		return 0
	}
	return maxRemoteObjects
}

// storedLocked returns the number of objects of a resource that the stores of its watches have
// together; nil where they are unlimited. The registry's mutex must be held.
func (c *clusterWatches) storedLocked(gvr schema.GroupVersionResource) *atomic.Int64 {
	if c.maxObjects() == 0 {
		return nil
	}
	if c.stored == nil {
		c.stored = map[schema.GroupVersionResource]*atomic.Int64{}
	}
	if c.stored[gvr] == nil {
		c.stored[gvr] = &atomic.Int64{}
	}
	return c.stored[gvr]
}

// serves asks discovery, without its cache, whether gvr is served.
func (c *clusterWatches) serves(ctx context.Context, gvr schema.GroupVersionResource) (bool, error) {
	c.client.Invalidate(gvr.Group)
	return c.client.ServesResource(ctx, gvr)
}

// run watches the kinds until the cluster is removed.
func (c *clusterWatches) run() {
	var wg sync.WaitGroup
	defer wg.Wait()
	for gvr, backoff := range c.backoffs {
		wg.Go(func() { c.watchKinds(gvr, backoff) })
	}
	for {
		group, shutdown := c.groups.Get()
		if shutdown {
			return
		}
		// A group whose server does not answer must not delay other groups.
		wg.Go(func() {
			defer c.groups.Done(group)
			c.checkGroup(group)
		})
	}
}

// deletedRechecks are the delays of further checks of a group after the deletion of a CustomResourceDefinition or an APIService: the API
// server may serve the group for a moment after that, and it leaves the watches on an extension API server open.
var deletedRechecks = [...]time.Duration{time.Second, 5 * time.Second, 20 * time.Second, time.Minute}

// watchKinds runs a metadata informer on cluster.Definitions or apiServices. Each event enqueues the API
// group that the object defines. While the informer fails, new kinds are found by the
// probes of Pending watches and by the retries of the owners.
func (c *clusterWatches) watchKinds(gvr schema.GroupVersionResource, backoff *requestBackoff) {
	stored := newStats() // these are not reported
	client := retryingMetadata{Interface: c.client.Metadata(), requests: &retryingClient{
		maxObjects:  c.maxObjects(),
		served:      func(context.Context) (bool, error) { return true, nil }, // retry in any case
		report:      c.reporter(gvr),
		listLimiter: newListLimiter(), // it must not wait for the lists of the kinds
		pages:       c.pages,
		backoff:     backoff,
		stats:       stored,
	}}
	informer := metadatainformer.NewFilteredMetadataInformer(client, gvr,
		metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	changed := func(obj any, definitions int) {
		if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
			c.countDefinitions(groupOf(name.Name), definitions)
			c.enqueueGroup(groupOf(name.Name))
		}
	}
	registration := c.registry.prepareInformer(informer, nameOnly, cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			stored.addStored(1, 0)
			changed(obj, 1)
		},
		UpdateFunc: func(_, obj any) { changed(obj, 0) },
		DeleteFunc: func(obj any) {
			stored.addStored(-1, 0)
			changed(obj, -1)
			if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
				for _, delay := range deletedRechecks { // the queue would keep the first delay alone
					time.AfterFunc(delay, func() { c.enqueueGroup(groupOf(name.Name)) })
				}
			}
		},
	}, gvr.String())
	c.registry.wg.Go(func() {
		select {
		case <-registration.HasSyncedChecker().Done():
			c.noticing.Add(1)
		case <-c.ctx.Done():
		}
	})
	informer.RunWithContext(klog.NewContext(c.ctx, logr.Discard()))
}

// NoticesKinds reports whether the registry notices when the cluster begins or ceases to serve a kind: it watches
// CustomResourceDefinitions and APIServices.
func (r *Registry) NoticesKinds(cluster string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.clusters[cluster]
	return c != nil && c.noticesKinds()
}

func (c *clusterWatches) noticesKinds() bool { return int(c.noticing.Load()) == len(c.backoffs) }

// reporter returns a function that logs when the watch on gvr begins to fail, and when it
// works again. That the Secrets with kubeconfigs are still to be read is usual after a start.
func (c *clusterWatches) reporter(gvr schema.GroupVersionResource) func(event, Reason, error) {
	log := c.registry.opts.Log.WithValues("cluster", c.name, "resource", gvr.String())
	var failing, reported atomic.Bool
	return func(what event, reason Reason, err error) {
		if what == failed && failing.CompareAndSwap(false, true) {
			c.noticing.Add(-1)
		} else if what == answered && failing.CompareAndSwap(true, false) {
			c.noticing.Add(1)
		}
		switch {
		case what == failed && !errors.Is(err, cluster.ErrStarting) && reported.CompareAndSwap(false, true):
			log.Error(err, "Cannot watch which kinds are served: new kinds are noticed late", "reason", reason)
		case what == answered && reported.CompareAndSwap(true, false):
			log.Info("Watching which kinds are served works again")
		}
	}
}

// countDefinitions adds n to the number of definitions of an API group.
func (c *clusterWatches) countDefinitions(group string, n int) {
	c.registry.mu.Lock()
	defer c.registry.mu.Unlock()
	if c.definitions[group] += n; c.definitions[group] == 0 {
		delete(c.definitions, group)
	}
}

// enqueueGroup enqueues an API group to be checked without a backoff.
func (c *clusterWatches) enqueueGroup(group string) {
	c.groups.Forget(group)
	c.groups.Add(group)
}

// groupInterest lists the kinds of an API group that the registry needs.
type groupInterest struct {
	// undefined reports that the group has no definition: an event of the first one enqueues it.
	undefined bool
	kinds     []Kind
	pending   []*watch
	// running maps each watch with an informer to its current run.
	running map[*watch]*informerRun
}

// checkGroup asks discovery about everything that the registry needs to know about a
// group: awaited kinds, Pending watches, and running watches whose kind may be gone.
func (c *clusterWatches) checkGroup(group string) {
	want := c.interestIn(group)
	c.client.Invalidate(group)
	again := len(want.pending) > 0 && !want.undefined
	for _, w := range want.pending {
		w.probeNow()
	}
	for w, run := range want.running {
		switch served, err := c.client.ServesResource(c.ctx, w.key.GVR); {
		case err != nil:
			again = true
		case !served:
			w.applyEvent(run, notServed, ReasonNotFound, errNotServed(w.key))
		default:
			run.backoff.retryNow() // if it fails, the change may have fixed it
		}
	}
	for _, kind := range want.kinds {
		if served, err := c.client.ServesKind(c.ctx, kind.GVK); err != nil || !served {
			again = again || !want.undefined
			continue
		}
		c.notifyServed(kind)
	}
	if again && c.groups.NumRequeues(group) < maxRechecks {
		c.groups.AddRateLimited(group)
		return
	}
	c.groups.Forget(group)
}

// interestIn returns the needs of the registry in a group.
func (c *clusterWatches) interestIn(group string) groupInterest {
	r := c.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	want := groupInterest{undefined: c.noticesKinds() && c.definitions[group] == 0, running: map[*watch]*informerRun{}}
	if c.ctx.Err() != nil {
		return want // another cluster may have this name now
	}
	for kind := range r.awaited.All() {
		if kind.Cluster == c.name && kind.GVK.Group == group {
			want.kinds = append(want.kinds, kind)
		}
	}
	for key, w := range r.watches {
		switch {
		case w.cluster != c || key.GVR.Group != group:
		case w.shown.phase.state == Pending:
			want.pending = append(want.pending, w)
		case w.current != nil:
			want.running[w] = w.current
		}
	}
	return want
}

// errNotServed returns the error of a watch whose resource is unserved.
func errNotServed(key Key) error {
	return apierrors.NewNotFound(key.GVR.GroupResource(), "")
}

// notifyServed calls the owners that await a kind, which is served now.
func (c *clusterWatches) notifyServed(kind Kind) {
	r := c.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.ctx.Err() != nil {
		return // another cluster may have this name now
	}
	for _, owner := range r.awaited.Drop(kind) {
		r.notifier.add(c.ctx, func() { r.opts.OnKind(owner, kind) })
	}
}

// nameOnly is a transform that keeps only the name of an object.
func nameOnly(obj any) (any, error) {
	m, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return obj, nil
	}
	return &metav1.PartialObjectMetadata{
		TypeMeta: m.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
		},
	}, nil
}

// groupOf returns the API group that an object defines. A CustomResourceDefinition is
// named resource.group, an APIService version.group ("v1." for the core group).
func groupOf(name string) string {
	_, group, _ := strings.Cut(name, ".")
	return group
}
