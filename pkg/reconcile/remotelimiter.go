package reconcile

import (
	"sync"

	"github.com/vidra-operator/vidra/pkg/cluster"
)

// remoteLimiter bounds how many passes over VidraResources of other clusters are under way:
// one whose API server does not answer must not keep a worker from the others.
type remoteLimiter struct {
	// each and all are how many passes may be under way at one cluster, and at all
	// other clusters together.
	each, all int

	// mu guards under and total.
	mu    sync.Mutex
	under map[string]int
	total int
}

// newRemoteLimiter leaves some of the workers to the local cluster.
func newRemoteLimiter(workers int) *remoteLimiter {
	return &remoteLimiter{each: max(1, workers/4), all: max(1, workers-workers/4-1), under: map[string]int{}}
}

// enter takes a place at a cluster, if there is one. exit gives it back, and may be
// called in any case.
func (p *remoteLimiter) enter(server string) (exit func(), ok bool) {
	if p == nil || isLocal(server) {
		return func() {}, true
	}
	if name, err := cluster.NormalizeServer(server); err == nil { // otherwise the pass says so
		server = name
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.under[server] >= p.each || p.total >= p.all {
		return func() {}, false
	}
	p.under[server]++
	p.total++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.total--
		if p.under[server]--; p.under[server] == 0 {
			delete(p.under, server)
		}
	}, true
}
