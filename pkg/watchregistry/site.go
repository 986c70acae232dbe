package watchregistry

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// The resources whose changes tell that kinds come and go.
var (
	crds        = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
)

const (
	// The API server publishes a new kind in discovery some time after its
	// CustomResourceDefinition has changed, so a group is looked at again, with a
	// backoff between these limits, this many times.
	recheckMin  = 20 * time.Millisecond
	recheckMax  = 500 * time.Millisecond
	recheckMost = 24
)

// site is a cluster with what its watches share. It notices that the kinds of
// the cluster come and go.
type site struct {
	registry *Registry
	name     string
	cluster  Cluster
	// ctx ends when the cluster is removed, or the registry stops.
	ctx    context.Context
	cancel context.CancelFunc
	lists  *lists
	// breakers space the requests of the watches on the kinds, by their resources.
	breakers map[schema.GroupVersionResource]*breaker
	// groups holds the API groups that have to be looked at.
	groups workqueue.TypedRateLimitingInterface[string]
}

func newSite(r *Registry, name string, cluster Cluster) *site {
	s := &site{
		registry: r, name: name, cluster: cluster, lists: newLists(),
		breakers: map[schema.GroupVersionResource]*breaker{crds: newBreaker(), apiServices: newBreaker()},
		groups: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](recheckMin, recheckMax)),
	}
	s.ctx, s.cancel = context.WithCancel(r.ctx)
	context.AfterFunc(s.ctx, s.groups.ShutDown)
	return s
}

// remoteObjectsMost is how many objects of a kind are kept of another cluster, which may be
// hostile and send them without end.
const remoteObjectsMost = 50_000

// objectsMost is how many objects of a kind are kept; zero if any number.
func (s *site) objectsMost() int64 {
	if s.name == "" {
		return 0
	}
	return remoteObjectsMost
}

// serves asks discovery, past what it has said before, whether gvr is served.
func (s *site) serves(ctx context.Context, gvr schema.GroupVersionResource) (bool, error) {
	s.cluster.Invalidate(gvr.Group)
	return s.cluster.ServesResource(ctx, gvr)
}

// run notices kinds until the cluster is removed.
func (s *site) run() {
	var wg sync.WaitGroup
	defer wg.Wait()
	for gvr, breaker := range s.breakers {
		wg.Go(func() { s.watch(gvr, breaker) })
	}
	for {
		group, shutdown := s.groups.Get()
		if shutdown {
			return
		}
		// A group whose server does not answer must not delay another one.
		wg.Go(func() {
			defer s.groups.Done(group)
			s.look(group)
		})
	}
}

// watch runs a metadata informer whose events have the group of the object
// looked at. While it fails, kinds are found by the probes of Pending watches
// and by the owners' own retries.
func (s *site) watch(gvr schema.GroupVersionResource, breaker *breaker) {
	client := gatedMetadata{Interface: s.cluster.Metadata(), gate: &gate{
		most:    s.objectsMost(),
		served:  func(context.Context) (bool, error) { return true, nil }, // it is tried again in any case
		tell:    s.teller(gvr),
		lists:   newLists(), // it must not wait for the kinds that it tells of
		breaker: breaker,
		stats:   newStats(), // nobody looks at them
	}}
	informer := metadatainformer.NewFilteredMetadataInformer(client, gvr,
		metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	changed := func(obj any) {
		if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
			s.check(groupOf(name.Name))
		}
	}
	s.registry.prepare(informer, nameOnly, cache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		UpdateFunc: func(_, obj any) { changed(obj) },
		DeleteFunc: changed,
	}, gvr.String())
	informer.RunWithContext(klog.NewContext(s.ctx, logr.Discard()))
}

// teller logs that kinds which come and go are noticed late, and no longer.
func (s *site) teller(gvr schema.GroupVersionResource) func(event, Reason, error) {
	log := s.registry.opts.Log.WithValues("cluster", s.name, "resource", gvr.String())
	var failing atomic.Bool
	return func(what event, reason Reason, err error) {
		switch {
		case what == failed && failing.CompareAndSwap(false, true):
			log.Error(err, "Cannot watch which kinds come and go: those that come are noticed late", "reason", reason)
		case what == answered && failing.CompareAndSwap(true, false):
			log.Info("Can watch again which kinds come and go")
		}
	}
}

// check has a group looked at soon.
func (s *site) check(group string) {
	s.groups.Forget(group)
	s.groups.Add(group)
}

// wanted is what the registry wants to know of an API group.
type wanted struct {
	kinds   []Kind
	pending []*watch
	// running holds the watches that run, with their incarnation.
	running map[*watch]*incarnation
}

// look asks discovery about everything that the registry wants to know of a
// group: awaited kinds, Pending watches, and running ones that may be gone.
func (s *site) look(group string) {
	want := s.wanted(group)
	s.cluster.Invalidate(group)
	again := len(want.pending) > 0
	for _, w := range want.pending {
		w.wakeUp()
	}
	for w, life := range want.running {
		switch served, err := s.cluster.ServesResource(s.ctx, w.key.GVR); {
		case err != nil:
			again = true
		case !served:
			w.tell(life, notServed, ReasonNotFound, errNotServed(w.key))
		default:
			life.breaker.wake() // if it fails, what has changed may mend it
		}
	}
	for _, kind := range want.kinds {
		if served, err := s.cluster.ServesKind(s.ctx, kind.GVK); err != nil || !served {
			again = true
			continue
		}
		s.arrived(kind)
	}
	if again && s.groups.NumRequeues(group) < recheckMost {
		s.groups.AddRateLimited(group)
		return
	}
	s.groups.Forget(group)
}

// wanted is what the registry wants to know of a group.
func (s *site) wanted(group string) wanted {
	r := s.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	want := wanted{running: map[*watch]*incarnation{}}
	if s.ctx.Err() != nil {
		return want // another cluster may have the name now
	}
	for kind := range r.awaited {
		if kind.Cluster == s.name && kind.GVK.Group == group {
			want.kinds = append(want.kinds, kind)
		}
	}
	for key, w := range r.watches {
		switch {
		case w.site != s || key.GVR.Group != group:
		case w.phase.state == Pending:
			want.pending = append(want.pending, w)
		case w.life != nil:
			want.running[w] = w.life
		}
	}
	return want
}

// errNotServed is the error of a watch whose resource discovery does not serve.
func errNotServed(key Key) error {
	return apierrors.NewNotFound(key.GVR.GroupResource(), "")
}

// arrived tells the owners that wait for a kind that it is served.
func (s *site) arrived(kind Kind) {
	r := s.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.ctx.Err() != nil {
		return // another cluster may have the name now
	}
	for owner := range r.awaited[kind] {
		r.notifier.add(s.ctx, func() { r.opts.OnKind(owner, kind) })
	}
	delete(r.awaited, kind)
}

// nameOnly keeps the name of an object.
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

// groupOf is the API group that an object speaks of: a CustomResourceDefinition
// is named resource.group, an APIService version.group ("v1." for the core group).
func groupOf(name string) string {
	_, group, _ := strings.Cut(name, ".")
	return group
}
