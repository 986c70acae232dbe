package trigger

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// TakeCauses returns the pending causes of an owner and removes them. Those that the loop of objects takes stay: see
// TakeHeal.
func (f *Factory) TakeCauses(owner Owner) Causes { return f.pending.take(owner) }

// RequeueCauses adds causes again that the owner took and left unsettled. It does not enqueue
// the owner.
func (f *Factory) RequeueCauses(owner Owner, causes Causes) { f.pending.merge(owner, causes) }

// EnqueueAll enqueues owners to compare all their objects. All that an owner needs other than the
// events of its objects ends here: its watches, kinds, cluster, namespaces and sources.
func (f *Factory) EnqueueAll(owners ...Owner) { f.EnqueueAfter(0, owners...) }

// EnqueueAfter is EnqueueAll after a delay, within which further causes share that reconcile.
func (f *Factory) EnqueueAfter(delay time.Duration, owners ...Owner) {
	f.enqueueWith(Causes{All: true}, priorityqueue.AddOpts{After: delay}, owners...)
}

// EnqueueRetry is EnqueueAll, and retries failures without a backoff.
func (f *Factory) EnqueueRetry(owners ...Owner) {
	f.enqueueWith(Causes{All: true, Retry: true}, priorityqueue.AddOpts{}, owners...)
}

// Requeue enqueues an owner whose reconcile has ended apart from the controller: after a delay, and before that if it has pending causes. again
// enqueues it at once, with the priority of drift if objects were changed.
func (f *Factory) Requeue(owner Owner, again bool, result reconcile.Result) {
	switch {
	case again:
		var priority *int
		if f.pending.hasObjects(owner) {
			priority = ptr.To(driftPriority)
		}
		f.enqueue(owner, priorityqueue.AddOpts{Priority: priority})
	case result.RequeueAfter > 0:
		f.enqueue(owner, priorityqueue.AddOpts{After: result.RequeueAfter, Priority: result.Priority})
	}
}

// enqueueWith adds causes to owners and enqueues them.
func (f *Factory) enqueueWith(causes Causes, opts priorityqueue.AddOpts, owners ...Owner) {
	for _, owner := range owners {
		f.pending.merge(owner, causes)
		f.enqueue(owner, opts)
	}
}

// enqueue adds an owner to the work queue of reconciles.
func (f *Factory) enqueue(owner Owner, opts priorityqueue.AddOpts) {
	f.owners.add(reconcile.Request{NamespacedName: owner}, opts)
}

// Source returns a source for the work queue of a controller, which enqueues the owners with pending causes.
func (f *Factory) Source() source.Source { return source.Func(f.owners.start) }

// HealSource returns a source for the work queue of the loop of objects, which enqueues the changed objects. Without it, reconciles of the
// owners take all causes.
func (f *Factory) HealSource() source.TypedSource[Heal] {
	return source.TypedFunc[Heal](f.objects.start)
}

// queue is the work queue of a controller, and stores what is added before the controller starts. Its zero value is ready to use.
type queue[T comparable] struct {
	mu   sync.Mutex
	work workqueue.TypedRateLimitingInterface[T]
	// early holds the items that were added before work was known. Before a replica leads, it adds
	// an item many times.
	early map[T]struct{}
}

// start sets the work queue. It returns at once.
func (q *queue[T]) start(_ context.Context, work workqueue.TypedRateLimitingInterface[T]) error {
	q.mu.Lock()
	early := q.early
	q.work, q.early = work, nil
	q.mu.Unlock()
	for item := range early {
		q.add(item, priorityqueue.AddOpts{})
	}
	return nil
}

// started reports whether the controller has started, as in a replica that leads.
func (q *queue[T]) started() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.work != nil
}

func (q *queue[T]) add(item T, opts priorityqueue.AddOpts) {
	q.mu.Lock()
	work := q.work
	if work == nil {
		if q.early == nil {
			q.early = map[T]struct{}{}
		}
		q.early[item] = struct{}{}
	}
	q.mu.Unlock()
	if prioritized, ok := work.(priorityqueue.PriorityQueue[T]); ok {
		prioritized.AddWithOpts(opts, item)
	} else if work != nil {
		work.AddAfter(item, opts.After)
	}
}
