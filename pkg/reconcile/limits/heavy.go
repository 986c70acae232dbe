package limits

import (
	"context"
	"runtime"

	"golang.org/x/sync/semaphore"
)

// Bounds on reconciles of large manifests. The weight of a text or an object is the
// memory that it takes to parse it, see [manifest.Weight]. An ordinary heal, and a
// manifest of less than about 80 KiB, are light: these start at once.
const (
	// LightWeight is the most weight of a light reconcile.
	LightWeight = 4 << 20
	// LightText is the size of the smallest text that is worth the cost of weighing.
	LightText = 128 << 10
	// heavyMemory is the weight that all heavy reconciles parse and apply at a time. The
	// heaviest manifest takes all of it.
	heavyMemory = 192 << 20
	// ApplyFactor is the weight of an object while it is applied, relative to its own: it
	// is held as the manifest has it, as it was found, and as the API server has it then.
	ApplyFactor = 2
	// BatchWeight is the weight of the objects that are applied at a time.
	BatchWeight = 16 << 20
	// MaxBodies is how many bytes the bodies of all objects take between reconciles.
	MaxBodies = 96 << 20
	// FewBodies is how many bytes the bodies of one VidraResource take that are kept in any case.
	FewBodies = 256 << 10
)

// HeavyShare bounds the share of reconciles of large manifests: workers, memory and processors. It is safe for concurrent use.
type HeavyShare struct {
	memory *semaphore.Weighted
	// workers are the workers of each tenant.
	workers places
	// least is the weight of each heavy piece of work at least, so that half of the processors parse at most.
	least int64
	// bodies are the bytes of the bodies that owners keep.
	bodies *semaphore.Weighted
}

// NewHeavyShare leaves three of four workers and half of the processors to reconciles
// that are light.
func NewHeavyShare(workers int) *HeavyShare {
	heavy := max(1, workers/4)
	return &HeavyShare{
		workers: places{each: max(1, heavy/2), all: heavy, held: map[string]int{}},
		memory:  semaphore.NewWeighted(heavyMemory),
		bodies:  semaphore.NewWeighted(MaxBodies),
		least:   heavyMemory / int64(max(1, runtime.GOMAXPROCS(0)/2)),
	}
}

// Enter takes a worker for a heavy reconcile, if one is free. exit releases it. A tenant has at most half of them, if there are several; an empty
// tenant is free of this bound.
func (h *HeavyShare) Enter(tenant string) (exit func(), ok bool) {
	return h.workers.take(tenant)
}

// Take waits until there is memory for work of a weight. Light work continues at once. It fails
// only if ctx ends.
func (h *HeavyShare) Take(ctx context.Context, weight int64) (free func(), err error) {
	if weight <= LightWeight {
		return func() {}, nil
	}
	weight = min(max(weight, h.least), heavyMemory)
	if err := h.memory.Acquire(ctx, weight); err != nil {
		return nil, err
	}
	return func() { h.memory.Release(weight) }, nil
}

// KeepBodies reports whether bodies of a size may be kept until DropBodies is called.
func (h *HeavyShare) KeepBodies(size int64) bool { return h.bodies.TryAcquire(size) }

// DropBodies notes that bodies of a size are dropped.
func (h *HeavyShare) DropBodies(size int64) { h.bodies.Release(size) }
