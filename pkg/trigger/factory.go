package trigger

import (
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// driftPriority puts drift before routine work, which has priority 0.
const driftPriority = 100

// ContendedPriority is the priority of the drift of contended objects. It is below the priority
// of other drift, which precedes it, and above routine work, because the time until
// the drift is reverted is bounded.
const ContendedPriority = 50

// deletingDelay is the delay of the reconcile after a change of an object that is being deleted.
const deletingDelay = time.Second

// Factory returns the callbacks of watches and fills the work queue. It is safe for concurrent
// use.
type Factory struct {
	// Installation is the installation of the field managers that count. It must stay the same
	// after the first callback.
	Installation v1alpha1.Installation

	index   *Index
	pending pendingCauses
	held    heldObjects
	metrics metrics
	// refusals wakes owners whose applies were refused.
	refusals refusals

	// owners is the work queue of reconciles, objects that of the loop of objects.
	owners  queue[reconcile.Request]
	objects queue[Heal]
}

// NewFactory returns a Factory that uses an Index.
func NewFactory(index *Index) *Factory {
	f := &Factory{index: index, metrics: newMetrics()}
	f.held.refused = f.metrics.notKept
	f.pending = newPendingCauses(f.metrics.overflows, &f.held)
	return f
}

// HandlerFor returns the callbacks for one watch, whose objects must have passed TransformFor.
func (f *Factory) HandlerFor(cluster string, gvr schema.GroupVersionResource) cache.ResourceEventHandler {
	watch := unique.Make(watched{cluster: cluster, gvr: gvr})
	tally := f.metrics.countersOf(cluster, gvr)
	see := func(obj any, o observation) {
		if s, ok := obj.(*Snapshot); ok {
			waiting := s.waiting()
			o.snapshot, o.skipped, o.received = s, waiting.skipped, waiting.received
			o.healthDelay, o.othersChanged = sooner(o.healthDelay, waiting.healthDelay), waiting.othersChanged || o.before != nil && o.before.others() != s.others()
			if o.received.IsZero() {
				o.received = time.Now()
			}
			f.handleEvent(compactKey{watch: watch, namespace: s.namespace, name: s.name}, o, tally)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { see(obj, observation{healthDelay: healthDelay(nil, obj)}) },
		UpdateFunc: func(oldObj, newObj any) {
			before, _ := oldObj.(*Snapshot)
			after, _ := newObj.(*Snapshot)
			o := observation{changed: true, healthDelay: healthDelay(oldObj, newObj)}
			if before != nil && after != nil {
				order, ok := after.version.compare(before.version)
				o.changed, o.rewound = !before.version.is(after.version), ok && order < 0
				o.before = before
			}
			see(newObj, o)
		},
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				see(tombstone.Obj, observation{deleted: true, missed: true, healthDelay: healthDelay(tombstone.Obj, nil)})
				return
			}
			see(obj, observation{deleted: true, healthDelay: healthDelay(obj, nil)})
		},
	}
}

// handleEvent judges an event for every owner of its object and acts on the verdicts.
func (f *Factory) handleEvent(key compactKey, o observation, tally verdictCounters) {
	judgements := f.index.judge(key, o)
	if len(judgements) == 0 {
		tally.count(VerdictUnknown, o)
	}
	for _, j := range judgements {
		tally.count(j.verdict, o)
		f.enqueueHealth(j)
		f.act(key.objectKey(), j)
	}
	for owner, delay := range f.refusals.ended(key, o.snapshot, o.deleted) {
		f.EnqueueAfter(delay, owner)
	}
	f.releaseObject(key, o.snapshot)
}

// judgement is the verdict on an event for one owner.
type judgement struct {
	owner   Owner
	verdict Verdict
	// observation is the judged thing: the event, or an edit that was merged into it.
	observation observation
	// event is the state of the object in the event.
	event *Snapshot
	// before are the fields of other managers before an edit that was made during an apply; nil if the Index has it.
	before *ownership.Paths
	// healthDelay is the delay until the owner is enqueued because of the health of the object; 0 without a change.
	healthDelay time.Duration
}

// judge returns the verdicts on an observation for every owner of the object. It defers the
// observation for owners with a running apply.
func (x *Index) judge(key compactKey, o observation) []judgement {
	x.mu.Lock()
	defer x.mu.Unlock()
	var all []judgement
	for c := x.claims[key]; c != nil; c = c.next {
		c.noteSensitive(o)
		if o.rewound {
			c.expected.version = version{}
		}
		j := judgement{owner: c.holder.owner, verdict: VerdictInFlight, observation: o}
		if c.is.inFlight {
			c.deferEvent(o)
		} else {
			j = c.judgeEvent(o)
		}
		if j.healthDelay = o.healthDelay; c.holder.missing && o.before == nil && !o.deleted {
			j.healthDelay = statusDelay
		}
		all = append(all, j)
	}
	return all
}

// act adds a cause and enqueues the owner, as the verdict requires.
func (f *Factory) act(key ObjectKey, j judgement) {
	owner := j.owner
	if j.observation.othersChanged && (j.verdict == VerdictAsExpected || j.verdict == VerdictDrift) {
		f.enqueueWith(Causes{Others: true}, priorityqueue.AddOpts{After: f.index.recordDelay(owner, time.Now())}, owner)
	}
	switch j.verdict {
	case VerdictAsExpected:
		f.pending.dropSettled(owner, key)
	case VerdictDrift:
		found := j.observation.snapshot.waiting().object
		f.note(owner, key, Cause{Found: found, Unsure: found == nil, held: true, Before: j.before, Since: j.observation.received})
	case VerdictDeleted:
		f.note(owner, key, Cause{Deleted: true, Succeeded: Succeeded(j.observation.snapshot), Unsure: j.observation.missed, Since: j.observation.received})
	case VerdictGone:
		f.EnqueueAll(owner) // removals and applies may wait for its end
	case VerdictEcho, VerdictStale, VerdictInFlight, VerdictTerminating:
	case VerdictUnchanged, VerdictForeign, VerdictUnknown: // these are only counted
	}
}

// note adds the cause of an event. It enqueues the object, or its owner in three cases: a reconcile has an older cause of the object, the owner
// has maxCauses causes, so that it reconciles all its objects, or the loop of objects is missing.
func (f *Factory) note(owner Owner, key ObjectKey, cause Cause) {
	opts := f.pending.queueOptions(owner, key)
	if f.pending.add(owner, key, cause, f.objects.started()) {
		f.objects.add(Heal{owner, key}, opts)
		return
	}
	f.enqueue(owner, opts)
}

// enqueueHealth enqueues the owner of a judgement because the health of an object changed, as routine work after
// a delay. It is called before act, so that drift in the same event includes it. An owner that is
// in the queue changes its place only if the new delay ends earlier.
func (f *Factory) enqueueHealth(j judgement) {
	if j.healthDelay > 0 {
		f.enqueueWith(Causes{Health: true}, priorityqueue.AddOpts{After: j.healthDelay}, j.owner)
	}
}

// Commit ends an apply that succeeded, and judges the event that was deferred during it. The
// apply settles the causes that were pending before it, because a reconcile of all objects may
// find an edit in the store of the watch before the handler receives its event.
func (f *Factory) Commit(owner Owner, key ObjectKey, applied Applied) {
	if applied.Raced != nil {
		f.pending.keepRaced(owner, key, applied.Raced)
	} else {
		f.pending.drop(owner, key)
	}
	f.finishApply(key, f.index.commit(owner, compact(key), applied))
}

// Observed ends the comparison of an object that was not applied. Unlike Commit, it keeps the
// causes that were pending before it.
func (f *Factory) Observed(owner Owner, key ObjectKey, found Applied) {
	f.finishApply(key, f.index.commit(owner, compact(key), found))
}

// Abort ends an apply that failed, and judges the event that was deferred during it.
func (f *Factory) Abort(owner Owner, key ObjectKey) {
	f.finishApply(key, f.index.abort(owner, compact(key)))
}

// finishApply acts on the verdict on the deferred event; nil if there was none. The verdict
// AsExpected keeps the causes, because a later event may have added one.
func (f *Factory) finishApply(key ObjectKey, deferred *judgement) {
	if deferred == nil {
		return
	}
	if deferred.verdict != VerdictAsExpected {
		f.act(key, *deferred)
	}
	f.releaseObject(compact(key), deferred.event)
}

// releaseObject frees the whole object of a snapshot after the last owner has judged it.
func (f *Factory) releaseObject(key compactKey, s *Snapshot) {
	if s.pending.Load() != nil && !f.index.isDeferred(key, s) {
		s.pending.Store(nil)
	}
}

// Release removes an owner with its claims, causes and contentions.
func (f *Factory) Release(owner Owner) {
	f.index.forgetOwner(owner)
	f.pending.removeAll(owner)
	f.EndContentions(owner)
	f.refusals.set(owner, nil)
}
