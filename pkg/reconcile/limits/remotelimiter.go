package limits

import (
	"sync"

	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
)

// RemoteLimiter bounds how many reconciles of VidraResources of other clusters run:
// a cluster whose API server is silent must leave workers to the others.
type RemoteLimiter struct {
	// each and all are how many reconciles may run at one cluster, and at all
	// other clusters together.
	each, all int

	// mu guards under and total.
	mu    sync.Mutex
	under map[string]int
	total int
}

// NewRemoteLimiter leaves some of the workers to the local cluster.
func NewRemoteLimiter(workers int) *RemoteLimiter {
	return &RemoteLimiter{each: max(1, workers/4), all: max(1, workers-workers/4-1), under: map[string]int{}}
}

// Enter takes a place at a cluster, if one is free. exit releases it, and may be
// called in any case.
func (p *RemoteLimiter) Enter(server string) (exit func(), ok bool) {
	if p == nil || access.IsLocal(server) {
		return func() {}, true
	}
	if name, err := cluster.NormalizeServer(server); err == nil { // otherwise the reconcile reports the error
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
