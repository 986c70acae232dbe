package watchregistry

import (
	"context"
	"hash/maphash"
	"sync"

	"k8s.io/client-go/tools/cache"

	"github.com/vidra-operator/vidra/pkg/internal/parallel"
)

// Sized is an object that knows how many bytes it takes in the store. The objects that
// the transform of a watch returns may implement it; the registry adds up their sizes.
type Sized interface {
	// Size returns an estimate in bytes. It must be cheap: it is called twice for each
	// event.
	Size() int
}

// Successor is a state of an object that records which earlier states a slow handler misses.
// The objects that the transform of a watch returns may implement it.
type Successor interface {
	// Skip records that the handler receives this state instead of an older one. It is
	// called before the handler receives either.
	Skip(older any)
}

// shrinkThreshold is the number of pending objects above which the map of pending events
// is replaced when it is empty: a map does not shrink.
const shrinkThreshold = 1024

// delivery passes the events of one watch, through all its informer runs, to its handler:
// one at a time, and the events of one object in the order of the watch. Events that wait for a slow handler
// are merged for each object. So the number of pending entries is bounded by the number of
// objects, whereas the buffer of a shared informer grows with every event. delivery is a
// cache.ResourceEventHandler that never blocks.
type delivery struct {
	handler cache.ResourceEventHandler
	stats   *stats
	// wake holds a token when events are pending.
	wake parallel.Signal
	// received holds a token when an event came from the informer; see waitDelivered.
	received parallel.Signal

	// mu guards the fields below.
	mu sync.Mutex
	// delivered is the sum of keyHash over the objects with a reported addition and no reported deletion. It equals the sum
	// over the store of the informer when the delivery has received all its additions and deletions.
	delivered uint64
	// pending holds the events that the handler is still to take, queue their order.
	pending map[string]*pendingEvents
	queue   []queueItem
	// maxPending is the largest size of pending since it was made.
	maxPending int
	// previous holds the objects of earlier runs that the current run is still to report; nil
	// in the first run.
	previous map[string]any
}

// queueItem is an object with pending events, or a function to call after everything
// before it was handled.
type queueItem struct {
	key  string
	then func()
}

// pendingEvents are the merged events of one object: a deletion, followed by an addition
// or update. Either may be missing.
type pendingEvents struct {
	deleted any
	current *current
}

// current is the newest state of an object that was added or updated.
type current struct {
	// old is the state that the handler knows, if the object was updated.
	old, obj  any
	added     bool
	inInitial bool
}

func newDelivery(handler cache.ResourceEventHandler, s *stats) *delivery {
	return &delivery{
		handler: handler, stats: s, wake: parallel.NewSignal(), received: parallel.NewSignal(),
		pending: map[string]*pendingEvents{},
	}
}

// OnAdd implements cache.ResourceEventHandler.
func (d *delivery) OnAdd(obj any, inInitial bool) {
	d.countStored(1, size(obj))
	d.merge(obj, 1, func(n *pendingEvents) {
		n.current = &current{obj: obj, added: true, inInitial: inInitial}
	})
}

// OnUpdate implements cache.ResourceEventHandler.
func (d *delivery) OnUpdate(old, obj any) {
	d.countStored(0, size(obj)-size(old))
	d.merge(obj, 0, func(n *pendingEvents) {
		if n.current != nil {
			if s, ok := obj.(Successor); ok {
				s.Skip(n.current.obj)
			}
			n.current.obj = obj
			return
		}
		n.current = &current{old: old, obj: obj}
	})
}

// OnDelete implements cache.ResourceEventHandler.
func (d *delivery) OnDelete(obj any) {
	last := obj
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		last = tombstone.Obj
	}
	d.countStored(-1, -size(last))
	d.merge(obj, -1, func(n *pendingEvents) { n.deleted, n.current = obj, nil })
}

// countStored adds a change of the store to the statistics.
func (d *delivery) countStored(objects, bytes int) {
	d.stats.addStored(int64(objects), int64(bytes))
}

func size(obj any) int {
	if s, ok := obj.(Sized); ok {
		return s.Size()
	}
	return 0
}

// merge merges an event into the pending events of the same object. added is 1 for an
// addition, -1 for a deletion and 0 for an update.
func (d *delivery) merge(obj any, added int, merge func(*pendingEvents)) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return // the informer's store uses the same key and refuses it earlier
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.previous, key)
	d.delivered += uint64(added) * keyHash(key) //nolint:gosec // -1 subtracts, modulo 2^64
	d.mergeLocked(key, merge)
	d.received.Send()
}

// keySeed is the seed of keyHash in this process.
var keySeed = maphash.MakeSeed()

// keyHash returns the hash of the key of an object.
func keyHash(key string) uint64 { return maphash.String(keySeed, key) }

// hasDelivered reports whether the informer with this store has passed on every addition and
// deletion that the store shows. Both compare sums of hashes, which need no memory for each
// object; sets of objects that differ have the same sum by chance once in 2^64.
func (d *delivery) hasDelivered(store cache.Store) bool {
	var stored uint64
	for _, key := range store.ListKeys() {
		stored += keyHash(key)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.delivered == stored
}

// waitDelivered blocks until hasDelivered, or until ctx ends. Only one goroutine at a time
// may wait.
func (d *delivery) waitDelivered(ctx context.Context, store cache.Store) {
	for !d.hasDelivered(store) {
		select {
		case <-ctx.Done():
			return
		case <-d.received:
		}
	}
}

func (d *delivery) mergeLocked(key string, merge func(*pendingEvents)) {
	n := d.pending[key]
	if n == nil {
		n = &pendingEvents{}
		d.pending[key] = n
		d.maxPending = max(d.maxPending, len(d.pending))
		d.pushLocked(queueItem{key: key})
	}
	merge(n)
}

func (d *delivery) pushLocked(q queueItem) {
	d.queue = append(d.queue, q)
	d.wake.Send()
}

// restart ends a run, whose informer has this store. Objects of the store that the next run
// lacks are reported as deleted when the next run has synced.
func (d *delivery) restart(store cache.Store) {
	d.stats.clearStored()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.delivered = 0
	if d.previous == nil {
		d.previous = map[string]any{}
	}
	for _, key := range store.ListKeys() {
		if obj, found, err := store.GetByKey(key); err == nil && found {
			d.previous[key] = obj
		}
	}
}

// synced records that the informer has passed on its initial list. It calls then after the
// handler has handled all of it.
func (d *delivery) synced(then func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, obj := range d.previous {
		d.mergeLocked(key, func(n *pendingEvents) {
			n.deleted, n.current = cache.DeletedFinalStateUnknown{Key: key, Obj: obj}, nil
		})
	}
	d.previous = nil
	d.pushLocked(queueItem{then: then})
}

// run passes events to the handler until ctx ends.
func (d *delivery) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
		}
		for _, q := range d.take() {
			if ctx.Err() != nil {
				return
			}
			if q.then != nil {
				q.then()
				continue
			}
			d.deliver(d.takeObject(q.key))
		}
	}
}

// take returns the queue and empties it.
func (d *delivery) take() []queueItem {
	d.mu.Lock()
	defer d.mu.Unlock()
	queue := d.queue
	d.queue = nil
	return queue
}

// takeObject returns the pending events of one object and removes them.
func (d *delivery) takeObject(key string) *pendingEvents {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.pending[key]
	delete(d.pending, key)
	if len(d.pending) == 0 && d.maxPending > shrinkThreshold { // see shrinkThreshold
		d.pending, d.maxPending = map[string]*pendingEvents{}, 0
	}
	return n
}

func (d *delivery) deliver(n *pendingEvents) {
	if n.deleted != nil {
		d.handler.OnDelete(n.deleted)
	}
	switch c := n.current; {
	case c == nil:
	case c.added:
		d.handler.OnAdd(c.obj, c.inInitial)
	default:
		d.handler.OnUpdate(c.old, c.obj)
	}
}
