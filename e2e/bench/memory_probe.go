package main

import (
	"runtime"
	"runtime/metrics"
	"syscall"
	"time"
)

// liveHeap is the size of what is reachable. The second collection frees what
// the first one only found to be referred to by weak pointers.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// cpuTime is the CPU time that this process has used.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // it fails for arguments that are not valid only
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// peak finds the largest heap by sampling it.
type peak struct {
	done    chan struct{}
	largest chan uint64
}

func startPeak() *peak {
	p := &peak{done: make(chan struct{}), largest: make(chan uint64)}
	go func() {
		// Unlike runtime.ReadMemStats, this does not stop the world.
		heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		largest := uint64(0)
		for tick := time.NewTicker(2 * time.Millisecond); ; {
			metrics.Read(heap)
			largest = max(largest, heap[0].Value.Uint64())
			select {
			case <-tick.C:
			case <-p.done:
				tick.Stop()
				p.largest <- largest
				return
			}
		}
	}()
	return p
}

func (p *peak) stop() uint64 {
	close(p.done)
	return <-p.largest
}
