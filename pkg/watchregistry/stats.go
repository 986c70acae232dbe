package watchregistry

import (
	"sync"
	"sync/atomic"
	"time"

	apiwatch "k8s.io/apimachinery/pkg/watch"
)

// Reasons of a repeated LIST or WATCH, in addition to the reasons of a Degraded watch.
const (
	// restartClosed: the API server ended the stream, as it does every few minutes.
	restartClosed = "Closed"
	// restartExpired: the resourceVersion was too old (410).
	restartExpired = "Expired"
)

// stats counts the events and objects of a watch. It is safe for concurrent use.
type stats struct {
	// lastEvent is the time of the last event in nanoseconds since 1970; 0 before the first.
	lastEvent atomic.Int64
	// streamSince is when the open WATCH began to report changes, in the same unit; 0 while none is open.
	streamSince atomic.Int64
	// syncTook is the duration of the last start in nanoseconds; 0 before the first.
	syncTook atomic.Int64
	// objects and bytes describe the store of the watch.
	objects, bytes atomic.Int64
	// ofKind counts the objects in the stores of all watches of the resource in the cluster; nil
	// where they are unlimited.
	ofKind *atomic.Int64

	// mu guards events and restarts.
	mu       sync.Mutex
	events   map[apiwatch.EventType]uint64
	restarts map[string]uint64
}

func newStats() *stats {
	return &stats{events: map[apiwatch.EventType]uint64{}, restarts: map[string]uint64{}}
}

// addStored adds a change of the store.
func (s *stats) addStored(objects, bytes int64) {
	s.objects.Add(objects)
	s.bytes.Add(bytes)
	if s.ofKind != nil && objects != 0 {
		s.ofKind.Add(objects)
	}
}

// clearStored records that the store has ended, after its last change.
func (s *stats) clearStored() { s.addStored(-s.objects.Load(), -s.bytes.Load()) }

// storedOfKind returns the number of objects in the stores of all watches of the resource in the
// cluster, where they are limited.
func (s *stats) storedOfKind() int64 {
	if s.ofKind == nil {
		return s.objects.Load()
	}
	return s.ofKind.Load()
}

func (s *stats) event(kind apiwatch.EventType) {
	s.lastEvent.Store(time.Now().UnixNano())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events[kind]++
}

func (s *stats) restarted(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restarts[reason]++
}
