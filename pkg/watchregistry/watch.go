package watchregistry

import (
	"context"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// probeBackoff is how often discovery is asked for a resource that is not
// served. It is the backstop for the watches on CustomResourceDefinitions and
// APIServices, which wake a Pending watch at once.
var probeBackoff = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 9, Cap: 5 * time.Minute}

// watch is one resource of one cluster.
type watch struct {
	registry *Registry
	key      Key
	cluster  Cluster
	// ctx ends when the watch is stopped for good.
	ctx    context.Context
	cancel context.CancelFunc
	// wake ends the wait of a Pending watch early.
	wake chan struct{}

	// The registry's mutex guards what follows.

	owners map[Owner]struct{}
	linger *time.Timer
	status Status
	// incarnation counts the starts of an informer.
	incarnation uint64
	// informer, current and hasSynced belong to the present incarnation.
	informer  cache.SharedIndexInformer
	current   *incarnation
	hasSynced bool
}

// incarnation is one life of an informer of a watch.
type incarnation struct {
	// over is true once the informer is stopped: events that are still in its
	// buffers are dropped.
	over atomic.Bool
	// stop stops the informer.
	stop context.CancelFunc
	// ctx ends with stop.
	ctx context.Context
	// registration tells when the handler has seen the initial list.
	registration cache.ResourceEventHandlerRegistration
}

func newWatch(r *Registry, key Key, cluster Cluster) *watch {
	ctx, cancel := context.WithCancel(r.ctx)
	return &watch{
		registry: r, key: key, cluster: cluster,
		ctx: ctx, cancel: cancel,
		wake:   make(chan struct{}, 1),
		owners: map[Owner]struct{}{},
	}
}

// startLocked makes the informer of a new incarnation. Making one sends no
// request; run does.
func (w *watch) startLocked() {
	r := w.registry
	life := &incarnation{}
	life.ctx, life.stop = context.WithCancel(w.ctx)
	client := observedClient{
		Interface: w.cluster.Dynamic(),
		observe:   func(err error) { w.observed(life, err) },
	}
	informer := dynamicinformer.NewFilteredDynamicInformer(client, w.key.GVR, metav1.NamespaceAll, 0,
		cache.Indexers{}, func(o *metav1.ListOptions) { o.LabelSelector = r.opts.LabelSelector }).Informer()

	w.incarnation++
	w.informer, w.current, w.hasSynced = informer, life, false
	w.setLocked(started, "", nil)

	if transform := r.opts.TransformFor(w.key.Cluster, w.key.GVR); transform != nil {
		if err := informer.SetTransform(transform); err != nil {
			r.opts.Log.Error(err, "Cannot set the transform of a watch", "watch", w.key.String())
		}
	}
	// observedClient tells the same errors, and successes too.
	quiet := func(context.Context, *cache.Reflector, error) {}
	if err := informer.SetWatchErrorHandlerWithContext(quiet); err != nil {
		r.opts.Log.Error(err, "Cannot set the error handler of a watch", "watch", w.key.String())
	}
	registration, err := informer.AddEventHandler(life.guard(r.opts.HandlerFor(w.key.Cluster, w.key.GVR)))
	if err != nil { // only an informer that has stopped refuses a handler
		r.opts.Log.Error(err, "Cannot add the handler of a watch", "watch", w.key.String())
	}
	life.registration = registration
}

// run is the goroutine of a watch: it runs informers until the watch is
// stopped, and waits while the resource is not served.
func (w *watch) run(context.Context) {
	for {
		w.registry.mu.Lock()
		life, informer := w.current, w.informer
		w.registry.mu.Unlock()

		done := make(chan struct{})
		go func() {
			defer close(done)
			select {
			case <-life.registration.HasSyncedChecker().Done():
				w.tell(life, synced, "", nil)
			case <-life.ctx.Done():
			}
		}()
		informer.RunWithContext(life.ctx)
		<-done
		if !w.awaitServed() {
			return
		}
		if !w.restart() {
			return
		}
	}
}

// restart makes the informer of a new incarnation and tells the owners. It
// reports false when the watch was stopped meanwhile.
func (w *watch) restart() bool {
	w.registry.mu.Lock()
	defer w.registry.mu.Unlock()
	if w.ctx.Err() != nil {
		return false
	}
	w.startLocked()
	w.registry.notifyLocked(w)
	return true
}

// awaitServed blocks until discovery serves the resource. It reports false when
// the watch was stopped.
func (w *watch) awaitServed() bool {
	backoff := probeBackoff
	delay := backoff.Step()
	for {
		timer := time.NewTimer(delay)
		select {
		case <-w.ctx.Done():
			timer.Stop()
			return false
		case <-w.wake:
		case <-timer.C:
			w.cluster.Invalidate(w.key.GVR.Group)
			delay = backoff.Step()
		}
		timer.Stop()
		if served, err := w.cluster.ServesResource(w.ctx, w.key.GVR); err == nil && served {
			return true
		}
	}
}

// wakeUp ends the wait of a Pending watch early.
func (w *watch) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// observed takes the outcome of a LIST or WATCH of one incarnation.
func (w *watch) observed(life *incarnation, err error) {
	if what, reason, ok := classify(err); ok {
		w.tell(life, what, reason, err)
	}
}

// tell applies an event of one incarnation and tells the owners if the state
// changed.
func (w *watch) tell(life *incarnation, what event, reason Reason, err error) {
	r := w.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.current != life || life.over.Load() {
		return
	}
	if what == synced {
		w.hasSynced = true
	}
	if what == notServed {
		life.over.Store(true)
		life.stop()
		w.informer, w.hasSynced = nil, false
	}
	if w.setLocked(what, reason, err) {
		r.notifyLocked(w)
	}
}

// setLocked applies an event and reports whether the state or its reason
// changed.
func (w *watch) setLocked(what event, reason Reason, err error) bool {
	to := next(w.status.State, w.hasSynced, what)
	if to != Pending && to != Degraded {
		reason = ""
	} else if reason == "" {
		reason = w.status.Reason
	}
	changed := to != w.status.State || reason != w.status.Reason
	if to != w.status.State {
		w.status.Since = time.Now()
	}
	w.status.State, w.status.Reason, w.status.Message = to, reason, ""
	if reason != "" && err != nil {
		w.status.Message = err.Error()
	}
	return changed
}

// notifyLocked tells the owners of a watch its status, in a goroutine of its
// own because no callback may run under the mutex.
func (r *Registry) notifyLocked(w *watch) {
	owners := make([]Owner, 0, len(w.owners))
	for owner := range w.owners {
		owners = append(owners, owner)
	}
	key, status := w.key, w.status
	r.goLocked(func(context.Context) {
		for _, owner := range owners {
			r.opts.OnWatch(owner, key, status)
		}
	})
}

// guard drops the events of an incarnation that is over.
func (l *incarnation) guard(h cache.ResourceEventHandler) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, isInInitialList bool) {
			if !l.over.Load() {
				h.OnAdd(obj, isInInitialList)
			}
		},
		UpdateFunc: func(oldObj, newObj any) {
			if !l.over.Load() {
				h.OnUpdate(oldObj, newObj)
			}
		},
		DeleteFunc: func(obj any) {
			if !l.over.Load() {
				h.OnDelete(obj)
			}
		},
	}
}
