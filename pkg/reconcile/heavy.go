package reconcile

import (
	"context"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Bounds on reconciles of large manifests. The weight of a text or an object is the
// memory that it takes to parse it, see [manifest.Weight]. An ordinary heal, and a
// manifest of less than about 80 KiB, are light: these wait for nothing.
const (
	// lightWeight is the weight up to which a reconcile is light.
	lightWeight = 4 << 20
	// lightText is the size up to which it is worth to weigh a text.
	lightText = 128 << 10
	// heavyMemory is the weight that all heavy reconciles parse and apply at a time. The
	// heaviest manifest takes all of it.
	heavyMemory = 192 << 20
	// applyFactor is the weight of an object while it is applied, relative to its own: it
	// is held as the manifest has it, as it was found, and as the API server has it then.
	applyFactor = 2
	// batchWeight is the weight of the objects that are applied at a time.
	batchWeight = 16 << 20
	// maxBodies is how many bytes the bodies of all objects take between reconciles, and
	// fewBodies how many those of one VidraResource take that are kept in any case.
	maxBodies, fewBodies = 96 << 20, 256 << 10
)

// heavyShare bounds what reconciles of large manifests may take from the others: workers,
// memory and processors. It is safe for concurrent use. A nil one bounds nothing.
type heavyShare struct {
	workers, memory *semaphore.Weighted
	// least is what each heavy piece of work weighs, so that not all processors parse.
	least int64
	// bodies are the bytes of the bodies that owners keep.
	bodies atomic.Int64
}

// newHeavyShare leaves three of four workers and half of the processors to reconciles
// that are light.
func newHeavyShare(workers int) *heavyShare {
	return &heavyShare{
		workers: semaphore.NewWeighted(int64(max(1, workers/4))),
		memory:  semaphore.NewWeighted(heavyMemory),
		least:   heavyMemory / int64(max(1, runtime.GOMAXPROCS(0)/2)),
	}
}

// enter takes a worker for a heavy reconcile, if one is left. exit gives it back.
func (h *heavyShare) enter() (exit func(), ok bool) {
	if h == nil {
		return func() {}, true
	}
	if !h.workers.TryAcquire(1) {
		return nil, false
	}
	return func() { h.workers.Release(1) }, true
}

// take waits until there is memory for work of a weight. Light work does not wait. It fails
// only if ctx ends.
func (h *heavyShare) take(ctx context.Context, weight int64) (free func(), err error) {
	if h == nil || weight <= lightWeight {
		return func() {}, nil
	}
	weight = min(max(weight, h.least), heavyMemory)
	if err := h.memory.Acquire(ctx, weight); err != nil {
		return nil, err
	}
	return func() { h.memory.Release(weight) }, nil
}

// keepBodies reports whether bodies of a size may be kept until dropBodies is called.
func (h *heavyShare) keepBodies(size int64) bool {
	if h.bodies.Add(size) <= maxBodies {
		return true
	}
	h.dropBodies(size)
	return false
}

// dropBodies notes that bodies of a size are not kept any more.
func (h *heavyShare) dropBodies(size int64) { h.bodies.Add(-size) }

// keptBodies are the bodies of the objects of an owner, as long as they are reachable.
type keptBodies struct{ objects []*objectState }

// keepBodies keeps the bodies of the objects of an owner for the next reconcile, unless they
// are large and all owners keep too many. The next reconcile then reads the manifest
// again.
func (r *Reconciler) keepBodies(s *ownerState) {
	size := int64(0)
	for _, o := range s.manifest {
		size += int64(len(o.desired.body))
	}
	if r.heavy == nil || size <= fewBodies || s.bodies != nil {
		return
	}
	if r.heavy.keepBodies(size) {
		s.bodies = &keptBodies{objects: s.manifest}
		runtime.AddCleanup(s.bodies, r.heavy.dropBodies, size)
		return
	}
	for _, o := range s.manifest {
		o.desired.body = nil
	}
	s.dropped = true
}

// isHeavy reports whether a reconcile of vr for causes may parse or apply more than
// lightWeight.
func (r *Reconciler) isHeavy(owner trigger.Owner, vr *v1alpha1.VidraResource, causes trigger.Causes) bool {
	s := r.stateOf(owner)
	full := causes.All || causes.Gone || len(causes.Objects) == 0 && !causes.Health
	switch {
	case s == nil, s.uid != vr.UID, s.generation != vr.Generation, s.reread, s.dropped:
		return len(vr.Spec.ManifestFrom) > 0 || len(vr.Spec.Manifest) > lightText || manifest.Weight(vr.Spec.Manifest) > lightWeight
	case full:
		return len(vr.Spec.ManifestFrom) > 0 || s.weight > lightWeight
	case s.weight <= lightWeight:
		return false
	}
	weight := int64(0)
	for _, o := range s.manifest {
		if _, is := causes.Objects[o.desired.key]; is {
			weight += o.desired.weight
		}
	}
	return weight > lightWeight
}

// batches cuts tasks into pieces of at most batchWeight, or of one task.
func batches(tasks []task) [][]task {
	var all [][]task
	weight := int64(0)
	for i, t := range tasks {
		if weight += t.weight; i == 0 || weight > batchWeight {
			all, weight = append(all, nil), t.weight
		}
		last := len(all) - 1
		all[last] = append(all[last], t)
	}
	return all
}

// weightOf is the weight of tasks while they are done.
func weightOf(tasks []task) int64 {
	weight := int64(0)
	for _, t := range tasks {
		weight += applyFactor * t.weight
	}
	return weight
}
