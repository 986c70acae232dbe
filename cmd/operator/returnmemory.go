package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// returnInterval is how often the operator checks whether it is at rest.
	returnInterval = time.Second
	// busyBytes is the least allocation of the operator within returnInterval while it works.
	busyBytes = 4 << 20
	// burstBytes is the allocation after which a garbage collection to return memory is worth its cost. At rest, it takes some
	// minutes, and the runtime collects garbage every two minutes in any case.
	burstBytes = 32 << 20
	// allocatedBytes is the metric of all that was ever allocated.
	allocatedBytes = "/gc/heap/allocs:bytes"
)

// returnMemory returns the memory of a burst of work, such as a rollout, to the operating system when the burst has ended.
// The Go runtime alone keeps a tenth more than the heap may grow to, until the next burst. Standbys do it, too.
type returnMemory struct {
	// read returns how many bytes were ever allocated, and free returns memory.
	read func() uint64
	free func()
}

func newReturnMemory() returnMemory {
	return returnMemory{free: debug.FreeOSMemory, read: func() uint64 {
		sample := []metrics.Sample{{Name: allocatedBytes}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}}
}

var _ manager.LeaderElectionRunnable = returnMemory{}

// NeedLeaderElection is false: see returnMemory.
func (returnMemory) NeedLeaderElection() bool { return false }

// Start returns memory until ctx ends.
func (r returnMemory) Start(ctx context.Context) error {
	ticker := time.NewTicker(returnInterval)
	defer ticker.Stop()
	returned, last := uint64(0), r.read()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		now := r.read()
		if now-last < busyBytes && now-returned >= burstBytes {
			r.free()
			now = r.read()
			returned = now
		}
		last = now
	}
}
