package watchregistry

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// probeBackoff is how often discovery is asked for a resource that is not
// served. It is the backstop for the watches on CustomResourceDefinitions and
// APIServices, which wake a Pending watch at once.
var probeBackoff = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 9, Cap: 5 * time.Minute}

// toldPoll is how often it is looked whether an informer has told its handler
// everything, and toldTimeout how long.
const (
	toldPoll    = 5 * time.Millisecond
	toldTimeout = 5 * time.Second
)

// watch is one resource of one cluster.
type watch struct {
	registry *Registry
	key      Key
	site     *site
	// ctx ends when the watch is stopped for good.
	ctx    context.Context
	cancel context.CancelFunc
	// stats count the requests of all its informers.
	stats *stats
	// wake ends the wait of a Pending watch early.
	wake chan struct{}

	// The registry's mutex guards what follows.

	owners map[Owner]struct{}
	// linger is set while there is no owner.
	linger *time.Timer
	phase  phase
	// message is the last error while phase has a reason, and since is when the
	// state that is shown began.
	message string
	since   time.Time
	// life is the present incarnation; nil between two.
	life *incarnation
	// starts counts the incarnations.
	starts uint64
}

// incarnation is one life of an informer of a watch.
type incarnation struct {
	informer cache.SharedIndexInformer
	// breaker spaces its requests. It has one of its own: what failed before the
	// kind went says nothing of it now, and a LIST of the reflector may outlive it.
	breaker *breaker
	began   time.Time
	// stop ends ctx and with it the informer.
	ctx  context.Context
	stop context.CancelFunc
	// synced waits until the informer has synced.
	synced sync.WaitGroup
}

func newWatch(r *Registry, key Key, at *site) *watch {
	ctx, cancel := context.WithCancel(r.ctx)
	return &watch{
		registry: r, key: key, site: at,
		ctx: ctx, cancel: cancel,
		stats:  newStats(),
		wake:   make(chan struct{}, 1),
		owners: map[Owner]struct{}{},
		phase:  phase{state: Starting}, since: time.Now(),
	}
}

// run is the goroutine of a watch: it runs informers until the watch is
// stopped, and waits while the resource is not served.
func (w *watch) run() {
	opts := w.registry.opts
	transform := opts.TransformFor(w.key.Cluster, w.key.GVR)
	events := newDelivery(opts.HandlerFor(w.key.Cluster, w.key.GVR), w.stats)
	delivered := make(chan struct{})
	go func() {
		defer close(delivered)
		events.run(w.ctx)
	}()
	defer func() { <-delivered }()
	for {
		life := w.newIncarnation(events, transform)
		if !w.begin(life) {
			life.stop()
			return
		}
		// What client-go would log is told by the state of the watch.
		life.informer.RunWithContext(klog.NewContext(life.ctx, logr.Discard()))
		life.synced.Wait()
		if w.ctx.Err() != nil {
			return
		}
		events.restart(life.informer.GetStore())
		if !w.awaitServed() {
			return
		}
	}
}

// newIncarnation makes an informer, which hands its events to events.
func (w *watch) newIncarnation(events *delivery, transform cache.TransformFunc) *incarnation {
	r := w.registry
	life := &incarnation{breaker: newBreaker(), began: time.Now()}
	life.ctx, life.stop = context.WithCancel(w.ctx)
	client := gatedDynamic{Interface: w.site.cluster.Dynamic(), gate: &gate{
		served: func(ctx context.Context) (bool, error) {
			return w.site.serves(ctx, w.key.GVR)
		},
		tell:  func(what event, reason Reason, err error) { w.tell(life, what, reason, err) },
		lists: w.site.lists, breaker: life.breaker, stats: w.stats, most: w.site.objectsMost(),
	}}
	life.informer = dynamicinformer.NewFilteredDynamicInformer(client, w.key.GVR, metav1.NamespaceAll, 0,
		cache.Indexers{}, func(o *metav1.ListOptions) { o.LabelSelector = r.opts.LabelSelector }).Informer()
	registration := r.prepare(life.informer, transform, events, w.key.String())
	life.synced.Go(func() {
		select {
		case <-registration.HasSyncedChecker().Done():
			if life.ctx.Err() == nil {
				events.synced(func() { w.tell(life, synced, "", nil) })
			}
		case <-life.ctx.Done():
		}
	})
	return life
}

// end stops the informer of an incarnation, but not before its handler was told what
// left its store: an informer that stops forgets what it has not told yet.
func (life *incarnation) end(ctx context.Context, told *stats) {
	// A timeout means that the handler is told of nothing any more.
	_ = wait.PollUntilContextTimeout(ctx, toldPoll, toldTimeout, true, func(context.Context) (bool, error) {
		return told.objects.Load() == int64(len(life.informer.GetStore().ListKeys())), nil
	})
	life.stop()
}

// prepare sets up an informer that has not been started. It fails only if it
// has.
func (r *Registry) prepare(
	informer cache.SharedIndexInformer, transform cache.TransformFunc, handler cache.ResourceEventHandler, name string,
) cache.ResourceEventHandlerRegistration {
	log := r.opts.Log.WithValues("watch", name)
	if transform != nil {
		if err := informer.SetTransform(transform); err != nil {
			log.Error(err, "Cannot set the transform of a watch")
		}
	}
	// The gate tells the same errors, and successes too.
	quiet := func(context.Context, *cache.Reflector, error) {}
	if err := informer.SetWatchErrorHandlerWithContext(quiet); err != nil {
		log.Error(err, "Cannot set the error handler of a watch")
	}
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		log.Error(err, "Cannot add the handler of a watch")
	}
	return registration
}

// begin makes an incarnation the present one. It reports false when the watch
// was stopped meanwhile.
func (w *watch) begin(life *incarnation) bool {
	r := w.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.ctx.Err() != nil {
		return false
	}
	w.life = life
	w.starts++
	w.enterLocked(started, "", nil)
	return true
}

// awaitServed blocks until discovery serves the resource. It reports false when
// the watch was stopped.
func (w *watch) awaitServed() bool {
	backoff := probeBackoff
	for {
		if sleep(w.ctx, backoff.Step(), w.wake) != nil {
			return false
		}
		if served, err := w.site.serves(w.ctx, w.key.GVR); err == nil && served {
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

// tell applies an event of one incarnation.
func (w *watch) tell(life *incarnation, what event, reason Reason, err error) {
	r := w.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.life != life {
		return
	}
	switch {
	case what == synced:
		w.stats.syncTook.Store(int64(time.Since(life.began)))
	case what == notServed:
		r.wg.Go(func() { life.end(w.ctx, w.stats) })
		w.life = nil
	case what == listed && w.phase.hasSynced:
		for owner := range w.owners {
			r.notifier.add(w.ctx, func() { r.opts.OnRelist(owner, w.key) })
		}
	}
	w.enterLocked(what, reason, err)
}

// enterLocked applies an event, and tells the owners if that changes the state
// or its reason.
func (w *watch) enterLocked(what event, reason Reason, err error) {
	before := w.phase
	w.phase = next(before, what, reason)
	switch {
	case w.phase.reason == "":
		w.message = ""
	case err != nil:
		w.message = err.Error()
	}
	if w.phase.shown() != before.shown() {
		w.since = time.Now()
	}
	if w.phase.state == before.state && w.phase.reason == before.reason {
		return
	}
	r := w.registry
	key, status := w.key, w.statusLocked()
	r.notifier.add(r.ctx, func() {
		r.opts.Log.V(1).Info("Watch changed its state", "watch", key.String(),
			"from", before.state, "to", status.State, "reason", status.Reason, "message", status.Message)
	})
	for owner := range w.owners {
		r.notifier.add(w.ctx, func() { r.opts.OnWatch(owner, key, status) })
	}
	if before.state == Degraded && (w.phase.state == Starting || w.phase.state == Synced) {
		r.recoveredLocked(w)
	}
}

// statusLocked is the status of a watch.
func (w *watch) statusLocked() Status {
	s := Status{State: w.phase.shown(), Since: w.since}
	if s.State == Pending || s.State == Degraded {
		s.Reason, s.Message = w.phase.reason, w.message
	}
	return s
}

// recoveredLocked has the other watches of a cluster that are Degraded tried
// again: what was in the way of one was often in the way of all.
func (r *Registry) recoveredLocked(recovered *watch) {
	for _, w := range r.watches {
		if w != recovered && w.site == recovered.site && w.phase.state == Degraded {
			w.life.breaker.wake()
		}
	}
}
