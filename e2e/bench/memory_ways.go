package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// managedSelector selects the objects that Vidra applied.
const managedSelector = v1alpha1.ManagedByLabel + "=" + v1alpha1.ManagedByValue

var namespaceGVR = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// way is a way to watch objects. prepare does what comes before the first
// object; events are counted when a handler has dealt with them.
type way struct {
	name    string
	prepare func(ctx context.Context, config *rest.Config, events *counter) (watching, error)
}

// watching is what prepare made.
type watching struct {
	// sync begins to watch and returns when a handler has seen every object.
	sync func(context.Context) error
	// work is how many owners are in the work queue.
	work func() int
}

var ways = []way{
	{"dynamic informer", prepareDynamic},
	{"metadata informer", prepareMetadata},
	{vidraSide, prepareVidra},
}

func wayOf(name string) (way, error) {
	i := slices.IndexFunc(ways, func(w way) bool { return w.name == name })
	if i < 0 {
		return way{}, fmt.Errorf("there is no way %q to watch", name)
	}
	return ways[i], nil
}

func prepareDynamic(_ context.Context, config *rest.Config, events *counter) (watching, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return watching{}, err
	}
	return watchWith(dynamicinformer.NewFilteredDynamicInformer(client, configMap.gvr, metav1.NamespaceAll, 0,
		cache.Indexers{}, selectManaged).Informer(), events)
}

func prepareMetadata(_ context.Context, config *rest.Config, events *counter) (watching, error) {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return watching{}, err
	}
	return watchWith(metadatainformer.NewFilteredMetadataInformer(client, configMap.gvr, metav1.NamespaceAll, 0,
		cache.Indexers{}, selectManaged).Informer(), events)
}

func selectManaged(o *metav1.ListOptions) { o.LabelSelector = managedSelector }

// watchWith watches with an informer as it is.
func watchWith(informer cache.SharedIndexInformer, events *counter) (watching, error) {
	registration, err := informer.AddEventHandler(counted(cache.ResourceEventHandlerFuncs{}, events))
	return watching{
		sync: func(ctx context.Context) error {
			go informer.RunWithContext(ctx)
			if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
				return ctx.Err()
			}
			return nil
		},
		work: func() int { return 0 },
	}, err
}

// counted counts the events that a handler has dealt with.
func counted(h cache.ResourceEventHandler, events *counter) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(obj any, initial bool) { h.OnAdd(obj, initial); events.count() },
		UpdateFunc: func(old, obj any) { h.OnUpdate(old, obj); events.count() },
		DeleteFunc: func(obj any) { h.OnDelete(obj); events.count() },
	}
}

// prepareVidra wires what watches in the operator, and lets it know what was
// applied.
func prepareVidra(ctx context.Context, config *rest.Config, events *counter) (watching, error) {
	local, err := cluster.New(config)
	if err != nil {
		return watching{}, err
	}
	index := trigger.NewIndex()
	owners, err := load(ctx, local.Dynamic(), index)
	if err != nil {
		return watching{}, err
	}
	factory := trigger.NewFactory(index)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	if err := factory.Source().Start(ctx, queue); err != nil {
		return watching{}, err
	}
	synced := make(chan struct{})
	var once sync.Once
	registry := watchregistry.New(watchregistry.Options{
		LabelSelector: managedSelector,
		HandlerFor: func(cluster string, gvr schema.GroupVersionResource) cache.ResourceEventHandler {
			return counted(factory.HandlerFor(cluster, gvr), events)
		},
		TransformFor: factory.TransformFor,
		OnWatch: func(_ watchregistry.Owner, _ watchregistry.Key, status watchregistry.Status) {
			if status.State == watchregistry.Synced {
				once.Do(func() { close(synced) })
			}
		},
	})
	registry.AddCluster("", local)
	return watching{
		sync: func(ctx context.Context) error {
			for _, owner := range owners {
				registry.Sync(owner, []watchregistry.Key{{GVR: configMap.gvr}})
			}
			select {
			case <-synced:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
		work: queue.Len,
	}, nil
}

// load gives an index for every object what its owner left there, and returns the
// owners.
func load(ctx context.Context, client dynamic.Interface, index *trigger.Index) ([]trigger.Owner, error) {
	var owners []trigger.Owner
	opts := metav1.ListOptions{LabelSelector: managedSelector, Limit: 500}
	for {
		page, err := client.Resource(configMap.gvr).List(ctx, opts)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			owner, key, applied, err := appliedTo(&page.Items[i])
			if err != nil {
				return nil, err
			}
			if !index.Loaded(owner) {
				owners = append(owners, owner)
			}
			index.Load(owner, map[trigger.ObjectKey]trigger.Applied{key: applied})
		}
		if opts.Continue = page.GetContinue(); opts.Continue == "" {
			return owners, nil
		}
	}
}

// appliedTo is what the owner of an object left in it.
func appliedTo(u *unstructured.Unstructured) (trigger.Owner, trigger.ObjectKey, trigger.Applied, error) {
	owner := trigger.Owner{}
	for _, name := range v1alpha1.Owners(u.GetAnnotations()) {
		owner.Name = name
	}
	manager := v1alpha1.FieldManager(owner.Name)
	digest, recorded := ownership.Of(u, manager)
	if !recorded {
		return owner, trigger.ObjectKey{}, trigger.Applied{}, errors.New(u.GetName() + " was not applied by an owner")
	}
	return owner, trigger.ObjectKey{GVR: configMap.gvr, Namespace: u.GetNamespace(), Name: u.GetName()},
		trigger.Applied{Manager: manager, Digest: digest, UID: u.GetUID(), ResourceVersion: u.GetResourceVersion()}, nil
}
