package reconcile

import (
	"sync"

	"github.com/vidra-operator/vidra/pkg/trigger"
)

// clusterIndex relates VidraResources to the remote clusters that their objects are applied
// to. The zero value is ready. It is safe for concurrent use.
type clusterIndex struct {
	// mu guards clusters and forgetting. It is never held while anything is awaited.
	mu sync.Mutex
	// clusters holds the cluster of each owner.
	clusters map[trigger.Owner]string
	// forgetting holds the clusters that are being forgotten.
	forgetting map[string]bool
}

// set notes the cluster of an owner. It reports false, and notes nothing, while the cluster is
// being forgotten.
func (x *clusterIndex) set(owner trigger.Owner, server string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.forgetting[server] {
		return false
	}
	if x.clusters == nil {
		x.clusters, x.forgetting = map[trigger.Owner]string{}, map[string]bool{}
	}
	x.clusters[owner] = server
	return true
}

// remove removes an owner, and calls forget with its cluster if it was the last owner there.
// No owner gets that cluster before forget has returned.
func (x *clusterIndex) remove(owner trigger.Owner, forget func(server string)) {
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
func (x *clusterIndex) removeOwner(owner trigger.Owner) (server string, last bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	server, known := x.clusters[owner]
	if !known {
		return "", false
	}
	delete(x.clusters, owner)
	if len(x.ownersLocked(server)) > 0 {
		return server, false
	}
	x.forgetting[server] = true
	return server, true
}

// owners returns the owners at a cluster.
func (x *clusterIndex) owners(server string) []trigger.Owner {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.ownersLocked(server)
}

func (x *clusterIndex) ownersLocked(server string) []trigger.Owner {
	var owners []trigger.Owner
	for owner, at := range x.clusters {
		if at == server {
			owners = append(owners, owner)
		}
	}
	return owners
}

// of returns the cluster of an owner; empty for the local one.
func (x *clusterIndex) of(owner trigger.Owner) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.clusters[owner]
}
