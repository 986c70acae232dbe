package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/flowcontrol"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/limits"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/tracing"
	"github.com/vidra-operator/vidra/pkg/source"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// changed is the predicate of the loop of VidraResources.
func (r *Reconciler) changed() predicate.Predicate {
	return predicate.Or[client.Object](predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*v1alpha1.VidraResource)
			after, is := e.ObjectNew.(*v1alpha1.VidraResource)
			return ok && is && (r.restored(before, after) || r.foreignStatus(before, after) || r.Assignment.Requested(before, after)) || r.caughtUp.awaits(e) ||
				r.Reports.Inventories.Lightened(e.ObjectNew.GetName()) || !e.ObjectNew.GetDeletionTimestamp().IsZero()
		},
		DeleteFunc: r.Assignment.Left,
	}, predicate.GenerationChangedPredicate{})
}

// isReplaced reports whether an update shows another object of the name: the former one was deleted while the watch was down, without an event of that.
func isReplaced(before, after client.Object) bool { return before.GetUID() != after.GetUID() }

// SetupWithManager registers two controllers with mgr: the loop of VidraResources, for changes of their specs, their deletions and the owners that
// the trigger names, and the loop of objects. workers is the number of reconciles at a time.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, workers int) error {
	r.bounds.remote, r.bounds.heavy = limits.NewRemoteLimiter(workers), limits.NewHeavyShare(workers)
	r.bounds.recompute = flowcontrol.NewTokenBucketPassiveRateLimiter(plan.RecomputeQPS, plan.RecomputeQPS)
	r.Watching.sources.Kinds, r.Watching.sources.Changed = source.Objects(r.Clients.Metadata), r.Watching.Trigger.EnqueueAll
	r.Watching.sources.Everywhere = !r.Clusters.LocalScope.LimitsNamespaces()
	maps.Copy(r.Watching.sources.Kinds, r.Options.Artifacts)
	named := &r.related.named
	named.Cache, named.API, named.Metadata, named.Sources, named.Parts = r.Clients.Client, r.Clients.API, r.Clients.Metadata, &r.Watching.sources, r.partsOf
	r.Watching.grants = access.NewGrants(r.granted, r.rolesWatched)
	r.Watching.obstacles.Max, r.Watching.obstacles.Changed = maxWatchedObstacles, r.obstacleChanged
	r.Watching.obstacles.Ended = r.recheckRights
	if err := errors.Join(mgr.Add(&r.Watching.sources), mgr.Add(&r.Watching.obstacles), mgr.Add(r.Watching.grants)); err != nil {
		return fmt.Errorf("set up the watches of manifests and rights: %w", err)
	}
	build := ctrl.NewControllerManagedBy(mgr).
		Named("vidraresource").
		For(&v1alpha1.VidraResource{}, builder.WithPredicates(r.changed())).
		WatchesRawSource(r.Watching.Trigger.Source()).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, RateLimiter: limits.NewRateLimiter()})
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.VidraResource{}, dependsOnField, dependsOn); err != nil {
		return fmt.Errorf("index spec.dependsOn: %w", err)
	}
	build = build.Watches(&v1alpha1.VidraResource{}, r.onDependency())
	if !r.Clusters.LocalScope.LimitsNamespaces() { // otherwise it needs no right on all Namespaces
		build = build.WatchesMetadata(&corev1.Namespace{}, r.onNamespace())
	}
	if err := build.Complete(tracing.Reconciler(r)); err != nil {
		return fmt.Errorf("set up the controller of VidraResources: %w", err)
	}
	r.bounds.gate = limits.NewGate(r.Watching.Trigger.EnqueueHeal)
	r.bounds.workers = &limits.Workers{Ended: func(owner trigger.Owner, again bool, result reconcile.Result, err error) {
		if err != nil {
			mgr.GetLogger().Error(err, "Reconciler error", "VidraResource", owner.Name)
		}
		r.Watching.Trigger.Requeue(owner, again, result)
	}}
	converger, err := controller.NewTyped("vidraobject", mgr, controller.TypedOptions[trigger.Heal]{
		MaxConcurrentReconciles: healWorkers, Reconciler: reconcile.TypedFunc[trigger.Heal](r.Converge),
	})
	if err == nil {
		err = converger.Watch(r.Watching.Trigger.HealSource())
	}
	if err != nil {
		return fmt.Errorf("set up the controller of objects: %w", err)
	}
	return nil
}
