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

	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/internal/parallel"
)

// probeBackoff spaces the requests to discovery for a resource that is unserved. It is
// the backstop for the watches on CustomResourceDefinitions and APIServices, which end
// the wait of a Pending watch at once.
var probeBackoff = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 9, Cap: 5 * time.Minute}

// sureProbes is the number of probes after which a Pending watch relies on the watches on CustomResourceDefinitions and APIServices,
// where these work, and noProbe the time after which it probes all the same.
const (
	sureProbes = 5
	noProbe    = time.Hour
)

// handOverTimeout bounds how long an informer whose resource has become unserved runs on
// until its handler has received every event. The handler takes events without blocking, so
// this is only reached where the API server keeps sending changes, or on a defect.
const handOverTimeout = 30 * time.Second

// watch is the watch of one resource of one cluster, in one namespace or in all of them.
type watch struct {
	registry *Registry
	key      Key
	cluster  *clusterWatches
	// ctx ends when the watch is stopped.
	ctx    context.Context
	cancel context.CancelFunc
	// stats counts the requests and objects of all runs.
	stats *stats
	// wake ends the wait of a Pending watch early.
	wake parallel.Signal

	// The registry's mutex guards the fields below.

	// linger is set while the watch is unowned.
	linger *time.Timer
	shown  shownState
	// current is the current informer run; nil between two runs.
	current *informerRun
	// starts counts the informer runs.
	starts uint64
}

// shownState is the state of a watch as its Status shows it.
type shownState struct {
	phase phase
	// message is the last error while phase has a reason.
	message string
	// since is when the state began.
	since time.Time
}

// informerRun is one informer of a watch, from its start to its stop.
type informerRun struct {
	informer cache.SharedIndexInformer
	// backoff spaces the requests of this run. Each run has its own, because failures of
	// an earlier run say nothing about this one, and a LIST may outlive its run.
	backoff   *requestBackoff
	startedAt time.Time
	// listAgain holds a token when all objects are to be listed again.
	listAgain parallel.Signal
	// events receives the events of the informer.
	events *delivery
	// stop cancels ctx, which stops the informer.
	ctx  context.Context
	stop context.CancelFunc
	// syncWaiter is the goroutine that waits until the informer has synced.
	syncWaiter sync.WaitGroup
}

func newWatch(r *Registry, key Key, at *clusterWatches) *watch {
	ctx, cancel := context.WithCancel(r.ctx)
	return &watch{
		registry: r, key: key, cluster: at,
		ctx: ctx, cancel: cancel,
		stats: newStats(),
		wake:  parallel.NewSignal(),
		shown: shownState{phase: phase{state: Starting}, since: time.Now()},
	}
}

// run is the goroutine of a watch. It runs one informer after the other until the watch is
// stopped, and waits in between while the resource is unserved.
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
		run := w.newRun(events, transform)
		if !w.beginRun(run) {
			run.stop()
			return
		}
		// The state of the watch replaces the log of client-go.
		run.informer.RunWithContext(klog.NewContext(run.ctx, logr.Discard()))
		run.syncWaiter.Wait()
		if w.ctx.Err() != nil {
			w.stats.clearStored()
			return
		}
		if store := run.informer.GetStore(); !events.hasDelivered(store) {
			w.registry.countIncompleteHandOver(w.key)
		}
		events.restart(run.informer.GetStore())
		if !w.awaitServed() {
			return
		}
	}
}

// newRun returns a run whose informer passes its events to events.
func (w *watch) newRun(events *delivery, transform cache.TransformFunc) *informerRun {
	r := w.registry
	run := &informerRun{backoff: newRequestBackoff(), startedAt: time.Now(), events: events, listAgain: parallel.NewSignal()}
	run.ctx, run.stop = context.WithCancel(w.ctx)
	client := retryingDynamic{Interface: w.cluster.client.Dynamic(), requests: &retryingClient{
		served: func(ctx context.Context) (bool, error) {
			return w.cluster.serves(ctx, w.key.GVR)
		},
		report:      func(what event, reason Reason, err error) { w.applyEvent(run, what, reason, err) },
		listLimiter: w.cluster.listLimiter, backoff: run.backoff, stats: w.stats, maxObjects: w.cluster.maxObjects(), pages: w.cluster.pages,
		onList: func() func(string) { return r.opts.OnList(w.key) }, listAgain: run.listAgain,
	}}
	run.informer = dynamicinformer.NewFilteredDynamicInformer(client, w.key.GVR, w.key.Namespace, 0,
		cache.Indexers{}, func(o *metav1.ListOptions) { o.LabelSelector = r.opts.LabelSelector }).Informer()
	registration := r.prepareInformer(run.informer, transform, events, w.key.String())
	run.syncWaiter.Go(func() {
		select {
		case <-registration.HasSyncedChecker().Done():
			if run.ctx.Err() == nil {
				events.synced(func() { w.applyEvent(run, synced, "", nil) })
			}
		case <-run.ctx.Done():
		}
	})
	return run
}

// stopAfterDelivery stops the informer when its handler has received every addition and
// deletion that the store shows, because a shared informer that stops drops the events
// that it is still to pass on. watch.run counts the case that it stopped too early.
func (run *informerRun) stopAfterDelivery(ctx context.Context, events *delivery) {
	ctx, cancel := context.WithTimeout(ctx, handOverTimeout)
	defer cancel()
	events.waitDelivered(ctx, run.informer.GetStore())
	run.stop()
}

// countIncompleteHandOver counts and logs that an informer stopped before its handler had
// received every event.
func (r *Registry) countIncompleteHandOver(key Key) {
	r.counts.incompleteHandOvers.Add(1)
	r.opts.Log.Info("Stopped an informer before its handler had received every event: "+
		"deletions may go unnoticed until the owners compare their objects next", "watch", key.String())
}

// prepareInformer configures an informer before its start.
func (r *Registry) prepareInformer(
	informer cache.SharedIndexInformer, transform cache.TransformFunc, handler cache.ResourceEventHandler, name string,
) cache.ResourceEventHandlerRegistration {
	log := r.opts.Log.WithValues("watch", name)
	if transform != nil {
		if err := informer.SetTransform(transform); err != nil {
			log.Error(err, "Cannot set the transform of a watch")
		}
	}
	// retryingClient reports the same errors, and successes too.
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

// beginRun makes run the current one. It returns false when the watch was stopped
// meanwhile.
func (w *watch) beginRun(run *informerRun) bool {
	r := w.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.ctx.Err() != nil {
		return false
	}
	w.current = run
	w.starts++
	w.transitionLocked(started, "", nil)
	return true
}

// awaitServed blocks until discovery serves the resource. It returns false when the watch
// was stopped.
func (w *watch) awaitServed() bool {
	backoff := probeBackoff
	for probes := 0; ; probes++ {
		delay := backoff.Step()
		if probes >= sureProbes && w.cluster.noticesKinds() {
			delay = noProbe
		}
		if sleep(w.ctx, delay, w.wake) != nil {
			return false
		}
		if served, err := w.cluster.serves(w.ctx, w.key.GVR); err == nil && served {
			return true
		}
	}
}

// probeNow ends the wait of a Pending watch early. It returns at once.
func (w *watch) probeNow() {
	w.wake.Send()
}

// applyEvent applies an event of one run. Events of earlier runs are ignored.
func (w *watch) applyEvent(run *informerRun, what event, reason Reason, err error) {
	r := w.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.current != run {
		return
	}
	switch {
	case what == synced:
		w.stats.syncTook.Store(int64(time.Since(run.startedAt)))
	case what == notServed:
		r.wg.Go(func() { run.stopAfterDelivery(w.ctx, run.events) })
		w.current = nil
	case what == listed && w.shown.phase.hasSynced:
		for _, owner := range r.needed.Owners(w.key) {
			r.notifier.add(w.ctx, func() { r.opts.OnRelist(owner, w.key) })
		}
	}
	w.transitionLocked(what, reason, err)
	if what == notServed && w.linger != nil {
		r.stopLocked(w) // no owner needs the probes of a Pending watch
	}
}

// transitionLocked applies an event, and calls the owners if the state or its reason
// changed. The registry's mutex must be held.
func (w *watch) transitionLocked(what event, reason Reason, err error) {
	before := w.shown.phase
	w.shown.phase = next(before, what, reason)
	switch {
	case w.shown.phase.reason == "":
		w.shown.message = ""
	case err != nil:
		w.shown.message = display.ErrorText(err.Error())
	}
	if w.shown.phase.displayState() != before.displayState() {
		w.shown.since = time.Now()
	}
	if w.shown.phase.state == before.state && w.shown.phase.reason == before.reason {
		return
	}
	r := w.registry
	key, status := w.key, w.statusLocked()
	r.notifier.add(r.ctx, func() {
		r.opts.Log.V(1).Info("Watch changed its state", "watch", key.String(),
			"from", before.state, "to", status.State, "reason", status.Reason, "message", status.Message)
	})
	for _, owner := range r.needed.Owners(key) {
		r.notifier.add(w.ctx, func() { r.opts.OnWatch(owner, key, status) })
	}
	if before.state == Degraded && (w.shown.phase.state == Starting || w.shown.phase.state == Synced) {
		r.retryDegradedLocked(w)
	}
}

// statusLocked returns the status of a watch. The registry's mutex must be held.
func (w *watch) statusLocked() Status {
	s := Status{State: w.shown.phase.displayState(), Since: w.shown.since}
	if s.State == Pending || s.State == Degraded {
		s.Reason, s.Message = w.shown.phase.reason, w.shown.message
	}
	if open := w.stats.streamSince.Load(); open != 0 {
		s.StreamSince = time.Unix(0, open)
	}
	return s
}

// retryDegradedLocked retries the other Degraded watches of a cluster now, because one
// cause often affects all of them. r.mu must be held.
func (r *Registry) retryDegradedLocked(recovered *watch) {
	for _, w := range r.watches {
		if w != recovered && w.cluster == recovered.cluster && w.shown.phase.state == Degraded {
			w.current.backoff.retryNow()
		}
	}
}
