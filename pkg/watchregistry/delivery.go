package watchregistry

import (
	"context"
	"sync"

	"k8s.io/client-go/tools/cache"
)

// Sized is an object that knows how many bytes are kept for it. What the
// transform of a watch returns may implement it; the registry adds them up.
type Sized interface {
	// Size is an estimate in bytes. It must be cheap: it is called twice for each
	// event.
	Size() int
}

// Successor is a state of an object that is told which earlier states a slow handler will
// not see. What the transform of a watch returns may implement it.
type Successor interface {
	// Skip notes that the handler sees this state instead of an older one. It is called
	// before the handler sees either.
	Skip(older any)
}

// roomToKeep is for how many objects that wait the memory is kept.
const roomToKeep = 1024

// delivery hands the events of one watch, through all its incarnations, to its
// handler: one at a time, those of one object in order. What a slow handler has
// not taken yet is merged for each object, so that what waits is bounded by the
// number of objects, whereas the buffer of a shared informer grows with every
// event. It is a cache.ResourceEventHandler that never blocks.
type delivery struct {
	handler cache.ResourceEventHandler
	stats   *stats
	// wake holds a token when something waits.
	wake chan struct{}

	// mu guards what follows.
	mu sync.Mutex
	// waiting holds what the handler has not taken yet, and queue the order.
	waiting map[string]*notices
	queue   []queued
	// most is how many objects have waited since waiting was made.
	most int
	// left holds what an earlier incarnation kept and the present one has not
	// seen yet; nil if there is no earlier one.
	left map[string]any
}

// queued is an object with notices, or something to do when everything before
// it has been handled.
type queued struct {
	key  string
	then func()
}

// notices are what there is to say of one object: that it was deleted, and
// then that it was added or updated. Either may be missing.
type notices struct {
	deleted any
	current *current
}

// current is an object as it was added or updated.
type current struct {
	// old is what the handler knows of it if it was updated.
	old, obj  any
	added     bool
	inInitial bool
}

func newDelivery(handler cache.ResourceEventHandler, s *stats) *delivery {
	return &delivery{handler: handler, stats: s, wake: make(chan struct{}, 1), waiting: map[string]*notices{}}
}

// OnAdd implements cache.ResourceEventHandler.
func (d *delivery) OnAdd(obj any, inInitial bool) {
	d.kept(1, size(obj))
	d.note(obj, func(n *notices) {
		n.current = &current{obj: obj, added: true, inInitial: inInitial}
	})
}

// OnUpdate implements cache.ResourceEventHandler.
func (d *delivery) OnUpdate(old, obj any) {
	d.kept(0, size(obj)-size(old))
	d.note(obj, func(n *notices) {
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
	d.kept(-1, -size(last))
	d.note(obj, func(n *notices) { n.deleted, n.current = obj, nil })
}

// kept notes a change of what the watch keeps.
func (d *delivery) kept(objects, bytes int) {
	d.stats.objects.Add(int64(objects))
	d.stats.bytes.Add(int64(bytes))
}

func size(obj any) int {
	if s, ok := obj.(Sized); ok {
		return s.Size()
	}
	return 0
}

// note merges an event into what waits for the same object.
func (d *delivery) note(obj any, merge func(*notices)) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return // the informer's store, which has the same key, refuses it before
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.left, key)
	d.noteLocked(key, merge)
}

func (d *delivery) noteLocked(key string, merge func(*notices)) {
	n := d.waiting[key]
	if n == nil {
		n = &notices{}
		d.waiting[key] = n
		d.most = max(d.most, len(d.waiting))
		d.pushLocked(queued{key: key})
	}
	merge(n)
}

func (d *delivery) pushLocked(q queued) {
	d.queue = append(d.queue, q)
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// restart notes that an incarnation has ended. What it kept, and the next one
// does not find, is reported as deleted once that has synced.
func (d *delivery) restart(store cache.Store) {
	d.stats.objects.Store(0)
	d.stats.bytes.Store(0)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left == nil {
		d.left = map[string]any{}
	}
	for _, key := range store.ListKeys() {
		if obj, found, err := store.GetByKey(key); err == nil && found {
			d.left[key] = obj
		}
	}
}

// synced notes that the informer has handed over its initial list, and calls
// then when the handler has seen all of it.
func (d *delivery) synced(then func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, obj := range d.left {
		d.noteLocked(key, func(n *notices) {
			n.deleted, n.current = cache.DeletedFinalStateUnknown{Key: key, Obj: obj}, nil
		})
	}
	d.left = nil
	d.pushLocked(queued{then: then})
}

// run hands events to the handler until ctx ends.
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
			d.deliver(d.takeOf(q.key))
		}
	}
}

// take takes the queue.
func (d *delivery) take() []queued {
	d.mu.Lock()
	defer d.mu.Unlock()
	queue := d.queue
	d.queue = nil
	return queue
}

// takeOf takes what waits for one object.
func (d *delivery) takeOf(key string) *notices {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.waiting[key]
	delete(d.waiting, key)
	if len(d.waiting) == 0 && d.most > roomToKeep { // a map does not shrink
		d.waiting, d.most = map[string]*notices{}, 0
	}
	return n
}

func (d *delivery) deliver(n *notices) {
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
