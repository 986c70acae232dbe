package cluster

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"
)

// oversized holds the paths of objects and kinds whose answers need too much memory. Requests for such a path fail
// without being sent, for a time that doubles with each attempt. Other objects and kinds are unaffected. The zero
// value is ready for use. It is safe for concurrent use.
type oversized struct {
	// mu guards paths.
	mu    sync.Mutex
	paths map[string]oversizedPath
}

// oversizedPath is the state of one path.
type oversizedPath struct {
	attempts int
	until    time.Time
}

// add records an answer that needed too much memory.
func (o *oversized) add(path string, l *limits) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if o.paths == nil {
		o.paths = map[string]oversizedPath{}
	}
	maps.DeleteFunc(o.paths, func(_ string, p oversizedPath) bool { return now.Sub(p.until) > l.maxHold })
	p := o.paths[path]
	p.until = now.Add(min(l.hold<<min(p.attempts, 10), l.maxHold))
	p.attempts++
	o.paths[path] = p
}

// forget has requests for all paths sent again.
func (o *oversized) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.paths = nil
}

// of returns the error of requests for a path; nil if they may be sent.
func (o *oversized) of(path string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	p, found := o.paths[path]
	if !found || !time.Now().Before(p.until) {
		return nil
	}
	return fmt.Errorf("the answer to a request for %s needs more than %d MiB of memory: make its objects smaller. Vidra tries it again within %s",
		path, maxHeldBytes>>20, time.Until(p.until).Round(time.Second))
}

// isAboutObjects reports whether a request is for one or more objects, rather than for discovery.
func isAboutObjects(request *http.Request) bool {
	parts := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	switch parts[0] {
	case "api":
		return len(parts) > 2
	case "apis":
		return len(parts) > 3
	}
	return false
}
