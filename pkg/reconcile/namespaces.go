package reconcile

import (
	"context"
	"maps"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// isTerminating returns a function that reports whether a namespace is being deleted, from the cache, which is the cache of
// the local cluster. It keeps its answers. Of another cluster, and with --namespaces, which excludes watches on
// Namespaces, the API server reports it when it refuses to create an object in the namespace. That is retried less and less
// often, at the latest after limits.RetryMax, so that the end of such a namespace is noticed within that time.
func (p *pass) isTerminating() func(ctx context.Context, namespace string) bool {
	known := map[string]bool{}
	return func(ctx context.Context, namespace string) bool {
		terminating, asked := known[namespace]
		if !asked && namespace != "" && p.applier.Destination.Name() == "" && !p.applier.Settings.Allowed.LimitsNamespaces() {
			_, terminating, _ = p.localNamespace(ctx, namespace)
			known[namespace] = terminating
		}
		return terminating
	}
}

// onNamespace enqueues the VidraResources that have objects in a namespace when it is created or
// deleted, and those whose account is in it when its labels change.
func (r *Reconciler) onNamespace() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := func(obj client.Object) { r.Watching.Trigger.EnqueueAll(r.related.namespaces.Owners(obj.GetName())...) }
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, _ queue) {
			if !e.IsInInitialList {
				enqueue(e.Object)
				r.enqueueAccounts(ctx, e.Object.GetName())
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, _ queue) {
			if isReplaced(e.ObjectOld, e.ObjectNew) {
				enqueue(e.ObjectNew)
			}
			if !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) {
				r.enqueueAccounts(ctx, e.ObjectNew.GetName())
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ queue) { enqueue(e.Object) },
	}
}
