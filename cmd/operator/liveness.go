package main

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	// stuckAfter is for how long the locks of the operator are held before /healthz fails. No request is sent under them, so that
	// microseconds are usual, and a slow API server is no cause.
	stuckAfter = 30 * time.Second
	// probeWait is how long a probe waits for the locks. The kubelet waits for a second.
	probeWait = 500 * time.Millisecond
)

// liveness is the check of /healthz: it fails once the watches, the index or the states of the VidraResources have been locked for
// stuckAfter. Then only a restart helps. It is safe for concurrent use.
type liveness struct {
	// lock takes and releases the locks, one after the other.
	lock func()

	// mu guards the fields below.
	mu sync.Mutex
	// free is closed when the call of lock that runs has returned; nil if none runs. since is when it began.
	free  chan struct{}
	since time.Time
}

// check implements healthz.Checker.
func (l *liveness) check(*http.Request) error {
	free, since := l.begin()
	select {
	case <-free:
	case <-time.After(probeWait):
		if held := time.Since(since); held >= stuckAfter {
			return fmt.Errorf("the operator is stuck: a lock has been held for %s", held.Round(time.Second))
		}
	}
	return nil
}

// begin calls lock, unless a call runs, and returns the channel that is closed at its end.
func (l *liveness) begin() (free chan struct{}, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.free == nil {
		free := make(chan struct{})
		l.free, l.since = free, time.Now()
		go func() {
			l.lock()
			l.mu.Lock()
			defer l.mu.Unlock()
			l.free = nil
			close(free)
		}()
	}
	return l.free, l.since
}
