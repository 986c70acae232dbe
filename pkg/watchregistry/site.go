package watchregistry

import (
	"context"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
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
	recheckMax  = 5 * time.Second
	recheckMost = 12
)

// kindWatcher notices that the kinds of a cluster come and go.
type kindWatcher struct {
	registry *Registry
	name     string
	cluster  Cluster
	// groups holds the API groups that have to be looked at.
	groups workqueue.TypedRateLimitingInterface[string]
}

func newKindWatcher(r *Registry, name string, cluster Cluster) *kindWatcher {
	return &kindWatcher{
		registry: r, name: name, cluster: cluster,
		groups: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](recheckMin, recheckMax)),
	}
}

// run watches until ctx ends.
func (k *kindWatcher) run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, gvr := range []schema.GroupVersionResource{crds, apiServices} {
		wg.Go(func() { k.watch(ctx, gvr) })
	}
	wg.Go(func() {
		for {
			group, shutdown := k.groups.Get()
			if shutdown {
				return
			}
			k.look(ctx, group)
			k.groups.Done(group)
		}
	})
	<-ctx.Done()
	k.groups.ShutDown()
	wg.Wait()
}

// watch runs a metadata informer whose events have the group of the object
// looked at.
func (k *kindWatcher) watch(ctx context.Context, gvr schema.GroupVersionResource) {
	informer := metadatainformer.NewFilteredMetadataInformer(k.cluster.Metadata(), gvr,
		metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	log := k.registry.opts.Log.WithValues("resource", gvr.String())
	if err := informer.SetTransform(nameOnly); err != nil {
		log.Error(err, "Cannot set the transform")
	}
	// The reflector retries with a backoff. Until it succeeds, kinds are found
	// by the probes of Pending watches and by the owners' own retries.
	quiet := func(context.Context, *cache.Reflector, error) {}
	if err := informer.SetWatchErrorHandlerWithContext(quiet); err != nil {
		log.Error(err, "Cannot set the error handler")
	}
	changed := func(obj any) {
		if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
			k.check(groupOf(name.Name))
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		UpdateFunc: func(_, obj any) { changed(obj) },
		DeleteFunc: changed,
	}); err != nil {
		log.Error(err, "Cannot add the handler")
	}
	informer.RunWithContext(ctx)
}

// check has a group looked at soon.
func (k *kindWatcher) check(group string) {
	k.groups.Forget(group)
	k.groups.Add(group)
}

// look asks discovery about everything that the registry wants to know of a
// group: awaited kinds, Pending watches, and running ones that may be gone.
func (k *kindWatcher) look(ctx context.Context, group string) {
	kinds, pending, running := k.wanted(group)
	k.cluster.Invalidate(group)
	again := len(pending) > 0
	for _, w := range pending {
		w.wakeUp()
	}
	for w, life := range running {
		if served, err := k.cluster.ServesResource(ctx, w.key.GVR); err == nil && !served {
			w.tell(life, notServed, ReasonNotFound, errGone(w.key))
		}
	}
	for _, kind := range kinds {
		if served, err := k.cluster.ServesKind(ctx, kind.GVK); err != nil || !served {
			again = true
			continue
		}
		k.registry.arrived(kind)
	}
	if again && k.groups.NumRequeues(group) < recheckMost {
		k.groups.AddRateLimited(group)
		return
	}
	k.groups.Forget(group)
}

// wanted is what the registry wants to know of a group.
func (k *kindWatcher) wanted(group string) (kinds []Kind, pending []*watch, running map[*watch]*incarnation) {
	r := k.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	for kind := range r.awaited {
		if kind.Cluster == k.name && kind.GVK.Group == group {
			kinds = append(kinds, kind)
		}
	}
	running = map[*watch]*incarnation{}
	for key, w := range r.watches {
		if key.Cluster != k.name || key.GVR.Group != group {
			continue
		}
		if w.status.State == Pending {
			pending = append(pending, w)
		} else {
			running[w] = w.current
		}
	}
	return kinds, pending, running
}

// arrived tells the owners that wait for a kind that it is served.
func (r *Registry) arrived(kind Kind) {
	r.mu.Lock()
	owners := r.awaited[kind]
	delete(r.awaited, kind)
	r.mu.Unlock()
	for owner := range owners {
		r.opts.OnKind(owner, kind)
	}
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
