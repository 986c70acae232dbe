package limits

import (
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
)

// RemoteLimiter bounds how many reconciles of VidraResources of other clusters run:
// a cluster whose API server is silent must leave workers to the others.
type RemoteLimiter struct {
	// running are the reconciles at each cluster.
	running places
}

// NewRemoteLimiter leaves some of the workers to the local cluster.
func NewRemoteLimiter(workers int) *RemoteLimiter {
	return &RemoteLimiter{running: places{each: max(1, workers/4), all: max(1, workers-workers/4-1), held: map[string]int{}}}
}

// Enter takes a place at a cluster, if one is free. exit releases it, and may be
// called in any case.
func (p *RemoteLimiter) Enter(server string) (exit func(), ok bool) {
	if access.IsLocal(server) {
		return func() {}, true
	}
	if name, err := cluster.NormalizeServer(server); err == nil { // otherwise the reconcile reports the error
		server = name
	}
	return p.running.take(server)
}
