package sync

import (
	"context"
	"errors"
	"fmt"
	gosync "sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

const (
	// syncsAtATime is how many InfrahubSyncs are synced at a time.
	syncsAtATime = 4
	// servedInterval is the time between two checks whether a new CustomResourceDefinition is served, and restartInterval that until a
	// controller that ended is started again.
	servedInterval, restartInterval = 250 * time.Millisecond, 10 * time.Second
)

// definition is the CustomResourceDefinition of InfrahubSyncs.
var definition = v1alpha1.SyncResource.GroupResource().String()

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// Controller runs the Reconciler while the CustomResourceDefinition of InfrahubSyncs is served, which may be installed and
// deleted at any time. It implements manager.Runnable.
type Controller struct {
	Manager    manager.Manager
	Metadata   metadata.Interface
	Reconciler *Reconciler
	Log        logr.Logger
}

// NeedLeaderElection is true: the leader syncs.
func (c *Controller) NeedLeaderElection() bool { return true }

// Start runs until ctx ends.
func (c *Controller) Start(ctx context.Context) error {
	exists := make(chan bool, 1)
	go watchDefinition(ctx, c.Metadata, exists)
	stop, running := context.CancelFunc(func() {}), gosync.WaitGroup{}
	for {
		select {
		case <-ctx.Done():
			stop()
			running.Wait()
			return nil
		case is := <-exists:
			stop()
			running.Wait()
			if !is {
				c.Log.Info("InfrahubSyncs are not served: their CustomResourceDefinition does not exist")
				continue
			}
			var served context.Context
			served, stop = context.WithCancel(ctx)
			running.Go(func() { c.run(served) })
		}
	}
}

// watchDefinition sends whether the CustomResourceDefinition exists, whenever that changes, until ctx ends.
func watchDefinition(ctx context.Context, client metadata.Interface, exists chan bool) {
	informer := metadatainformer.NewFilteredMetadataInformer(client, definitions, "", 0, toolscache.Indexers{}, func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, definition).String()
	}).Informer()
	send := func(is bool) {
		select {
		case <-exists: // what was not received yet is out of date
		default:
		}
		exists <- is
	}
	// The handler is called by one goroutine.
	uid := types.UID("")
	seen := func(obj any) {
		if one, is := obj.(*metav1.PartialObjectMetadata); is && one.UID != uid && one.DeletionTimestamp.IsZero() {
			uid = one.UID
			send(true)
		}
	}
	_, _ = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{ // it fails only for an informer that has stopped
		AddFunc: seen, UpdateFunc: func(_, obj any) { seen(obj) },
		DeleteFunc: func(any) { uid = ""; send(false) },
	})
	informer.RunWithContext(klog.NewContext(ctx, logr.Discard()))
}

// run runs the controller until ctx ends, and starts it again if it fails.
func (c *Controller) run(ctx context.Context) {
	logged := ""
	for ctx.Err() == nil {
		wait, err := restartInterval, c.Manager.GetAPIReader().List(ctx, &v1alpha1.InfrahubSyncList{}, client.Limit(1))
		switch {
		case err == nil:
			c.Log.Info("Syncs InfrahubSyncs")
			err = c.sync(ctx)
		case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
			wait = servedInterval
		}
		if err != nil && ctx.Err() == nil && err.Error() != logged && wait == restartInterval {
			logged = err.Error()
			c.Log.Error(err, "InfrahubSyncs cannot be synced: Vidra retries. Grant it the ClusterRole vidra-infrahub, or set --infrahub=false")
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// sync runs the controller with a cache of its own, until ctx ends or it fails.
func (c *Controller) sync(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	selected := cache.ByObject{Transform: cache.TransformStripManagedFields()}
	if c.Reconciler.Options.Shard != "" {
		selected.Label = c.Reconciler.Options.Shard.Selector()
	}
	syncs, err := cache.New(c.Manager.GetConfig(), cache.Options{
		Scheme: c.Manager.GetScheme(), Mapper: c.Manager.GetRESTMapper(), ByObject: map[client.Object]cache.ByObject{&v1alpha1.InfrahubSync{}: selected},
	})
	if err != nil {
		return fmt.Errorf("make the cache of InfrahubSyncs: %w", err)
	}
	r := c.Reconciler
	r.begin(c.Manager, syncs)
	one, err := controller.NewUnmanaged("infrahubsync", controller.Options{
		Reconciler: r, MaxConcurrentReconciles: syncsAtATime, SkipNameValidation: ptr.To(true), Logger: c.Log,
	})
	if err != nil {
		return fmt.Errorf("make the controller of InfrahubSyncs: %w", err)
	}
	err = errors.Join(
		one.Watch(source.Kind(syncs, &v1alpha1.InfrahubSync{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.InfrahubSync]{}, changed())),
		one.Watch(r.vidraResources(c.Manager.GetCache())))
	if err != nil {
		return fmt.Errorf("watch InfrahubSyncs and VidraResources: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- syncs.Start(ctx) }()
	err = one.Start(ctx)
	cancel()
	return errors.Join(err, <-ended)
}

// changed is the predicate of the controller. An update may show another InfrahubSync of the name: the former one was deleted while the watch was down.
func changed() predicate.TypedPredicate[*v1alpha1.InfrahubSync] {
	return predicate.Or[*v1alpha1.InfrahubSync](predicate.TypedGenerationChangedPredicate[*v1alpha1.InfrahubSync]{},
		predicate.TypedAnnotationChangedPredicate[*v1alpha1.InfrahubSync]{}, predicate.TypedLabelChangedPredicate[*v1alpha1.InfrahubSync]{},
		predicate.TypedFuncs[*v1alpha1.InfrahubSync]{
			UpdateFunc: func(e event.TypedUpdateEvent[*v1alpha1.InfrahubSync]) bool { return e.ObjectOld.UID != e.ObjectNew.UID },
		})
}

// begin gives the Reconciler its caches, and forgets its former knowledge.
func (r *Reconciler) begin(mgr manager.Manager, syncs client.Reader) {
	r.Syncs, r.API, r.Client = syncs, mgr.GetAPIReader(), mgr.GetClient()
	r.bounds.syncs, r.bounds.parsing = semaphore.NewWeighted(allDownloads), semaphore.NewWeighted(1)
	r.mu.Lock()
	r.sessions = nil
	r.mu.Unlock()
}

// vidraResources returns the source of the VidraResources of a cache. Unlike those of controller-runtime, it leaves the cache at its end: the cache of
// the manager outlives the controller.
func (r *Reconciler) vidraResources(of cache.Informers) source.Source {
	return source.Func(func(ctx context.Context, q workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		informer, err := of.GetInformer(ctx, &v1alpha1.VidraResource{})
		if err != nil {
			return err
		}
		registration, err := informer.AddEventHandler(r.onVidraResource(q))
		if err != nil {
			return err
		}
		context.AfterFunc(ctx, func() { _ = informer.RemoveEventHandler(registration) }) // it fails only for the handler of another informer
		return nil
	})
}

// onVidraResource enqueues the InfrahubSync that controls a VidraResource which another client changed or deleted.
func (r *Reconciler) onVidraResource(q workqueue.TypedRateLimitingInterface[ctrl.Request]) toolscache.ResourceEventHandler {
	enqueue := func(vr *v1alpha1.VidraResource, generation int64) {
		owner := metav1.GetControllerOf(vr)
		if s := r.sessionOf(owner); s != nil && s.results.changed(vr.Name, generation) {
			q.Add(ctrl.Request{NamespacedName: types.NamespacedName{Name: owner.Name}})
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, after any) {
			was, _ := before.(*v1alpha1.VidraResource)
			is, _ := after.(*v1alpha1.VidraResource)
			if was == nil || is == nil {
				return
			}
			lost := metav1.GetControllerOf(was) != nil && metav1.GetControllerOf(is) == nil
			switch {
			case was.UID != is.UID: // deleted and created again while the watch was down
				enqueue(was, -1)
			case lost || was.Annotations[v1alpha1.ArtifactAnnotation] != "" && is.Annotations[v1alpha1.ArtifactAnnotation] == "":
				enqueue(was, -1)
			case was.Generation != is.Generation && is.DeletionTimestamp.IsZero():
				enqueue(is, is.Generation)
			}
		},
		DeleteFunc: func(obj any) {
			if tombstone, missed := obj.(toolscache.DeletedFinalStateUnknown); missed {
				obj = tombstone.Obj
			}
			if vr, is := obj.(*v1alpha1.VidraResource); is {
				enqueue(vr, -1) // it may be one that is created again
			}
		},
	}
}
