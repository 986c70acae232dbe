package watchregistry

import (
	"sync"
	"sync/atomic"
	"time"

	apiwatch "k8s.io/apimachinery/pkg/watch"
)

// Why a LIST or WATCH had to be sent again, besides the reasons of a watch that
// is Degraded.
const (
	// restartClosed: the API server ended the stream, as it does every few minutes.
	restartClosed = "Closed"
	// restartExpired: what was to be watched from is too old (410).
	restartExpired = "Expired"
)

// stats count what happens to a watch. They are safe for concurrent use.
type stats struct {
	// lastEvent is when the last event came, in nanoseconds since 1970; 0 if none
	// has.
	lastEvent atomic.Int64
	// syncTook is how long the last start took, in nanoseconds; 0 before the first.
	syncTook atomic.Int64
	// objects and bytes are what the watch keeps.
	objects, bytes atomic.Int64

	// mu guards events and restarts.
	mu       sync.Mutex
	events   map[apiwatch.EventType]uint64
	restarts map[string]uint64
}

func newStats() *stats {
	return &stats{events: map[apiwatch.EventType]uint64{}, restarts: map[string]uint64{}}
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
