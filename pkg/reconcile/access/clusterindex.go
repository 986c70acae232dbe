package access

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/vidra-operator/vidra/pkg/internal/relation"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// ClusterIndex relates VidraResources to the remote clusters that their objects are applied
// to. The zero value is ready. It is safe for concurrent use.
type ClusterIndex struct {
	// mu guards clusters and forgetting. It is never held while anything is awaited.
	mu sync.Mutex
	// clusters relates each owner to one cluster.
	clusters relation.Relation[trigger.Owner, string]
	// forgetting holds the clusters that are being forgotten.
	forgetting map[string]bool
	// borrowers counts the calls of Destinations.Borrow that made a cluster.
	borrowers atomic.Uint64
}

// set notes the cluster of an owner. It only reports false while the cluster is
// being forgotten.
func (x *ClusterIndex) set(owner trigger.Owner, server string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.forgetting[server] {
		return false
	}
	x.clusters.Set(owner, slices.Values([]string{server}))
	return true
}

// Remove removes an owner, and calls forget with its cluster if it was the last owner there.
// Owners get that cluster again only after forget has returned.
func (x *ClusterIndex) Remove(owner trigger.Owner, forget func(server string)) {
	server, last := x.removeOwner(owner)
	if !last {
		return
	}
	forget(server)
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.forgetting, server)
}

// removeOwner removes an owner, and reports whether it was the last one at its cluster, which
// is then being forgotten.
func (x *ClusterIndex) removeOwner(owner trigger.Owner) (server string, last bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, server = range x.clusters.Release(owner) {
		last = !x.clusters.Needed(server)
	}
	if last {
		if x.forgetting == nil {
			x.forgetting = map[string]bool{}
		}
		x.forgetting[server] = true
	}
	return server, last
}

// Owners returns the owners at a cluster.
func (x *ClusterIndex) Owners(server string) []trigger.Owner {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.clusters.Owners(server)
}

// Of returns the cluster of an owner; empty for the local one.
func (x *ClusterIndex) Of(owner trigger.Owner) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, server := range x.clusters.Keys(owner) {
		return server
	}
	return ""
}
