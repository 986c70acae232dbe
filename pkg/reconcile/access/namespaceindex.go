package access

import (
	"iter"
	"sync"

	"github.com/vidra-operator/vidra/pkg/internal/relation"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// NamespaceIndex relates VidraResources to the namespaces of the local cluster that their objects
// are in. The zero value is ready. It is safe for concurrent use.
type NamespaceIndex struct {
	// mu guards namespaces.
	mu         sync.Mutex
	namespaces relation.Relation[trigger.Owner, string]
}

// Set makes the namespaces of an owner exactly names; an empty sequence forgets the owner.
func (x *NamespaceIndex) Set(owner trigger.Owner, names iter.Seq[string]) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.namespaces.Set(owner, names)
}

// Owners returns the owners that have objects in a namespace.
func (x *NamespaceIndex) Owners(namespace string) []trigger.Owner {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.namespaces.Owners(namespace)
}
