package trigger

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
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
	queue := f.workQueue()
	switch {
	case queue == nil:
	case again:
		var priority *int
		if f.pending.hasObjects(owner) {
			priority = ptr.To(driftPriority)
		}
		add(queue, owner, priorityqueue.AddOpts{Priority: priority})
	case result.RequeueAfter > 0:
		add(queue, owner, priorityqueue.AddOpts{After: result.RequeueAfter, Priority: result.Priority})
	}
}

// enqueueWith adds causes to owners and enqueues them.
func (f *Factory) enqueueWith(causes Causes, opts priorityqueue.AddOpts, owners ...Owner) {
	for _, owner := range owners {
		f.pending.merge(owner, causes)
		f.enqueue(owner, opts)
	}
}

// workQueue returns the work queue of reconciles; nil before this replica leads.
func (f *Factory) workQueue() workqueue.TypedRateLimitingInterface[reconcile.Request] {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.queue
}

// enqueue adds an owner to the work queue, or stores it until there is one.
func (f *Factory) enqueue(owner Owner, opts priorityqueue.AddOpts) {
	f.mu.Lock()
	queue := f.queue
	if queue == nil {
		if f.early == nil {
			f.early = map[Owner]struct{}{}
		}
		f.early[owner] = struct{}{}
	}
	f.mu.Unlock()
	if queue != nil {
		add(queue, owner, opts)
	}
}

func add(queue workqueue.TypedRateLimitingInterface[reconcile.Request], owner Owner, opts priorityqueue.AddOpts) {
	request := reconcile.Request{NamespacedName: owner}
	if pq, ok := queue.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		pq.AddWithOpts(opts, request)
		return
	}
	queue.AddAfter(request, opts.After)
}

// Source returns a source for the work queue of a controller.
func (f *Factory) Source() Source { return Source{factory: f} }

// Source is a controller-runtime source that enqueues the owners with pending causes.
type Source struct{ factory *Factory }

// Start sets the work queue. It returns at once.
func (s Source) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	f := s.factory
	f.mu.Lock()
	early := f.early
	f.queue, f.early = queue, nil
	f.mu.Unlock()
	for owner := range early {
		add(queue, owner, priorityqueue.AddOpts{})
	}
	return nil
}

// HealSource returns a source for the work queue of the loop of objects. Without it, reconciles of the owners take
// all causes.
func (f *Factory) HealSource() HealSource { return HealSource{factory: f} }

// HealSource is a controller-runtime source that enqueues the changed objects.
type HealSource struct{ factory *Factory }

// Start sets the work queue. It returns at once.
func (s HealSource) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[Heal]) error {
	f := s.factory
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heals = queue
	return nil
}

// healQueue returns the work queue of the loop of objects, or nil.
func (f *Factory) healQueue() workqueue.TypedRateLimitingInterface[Heal] {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.heals
}
