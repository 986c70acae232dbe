package access

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/cluster"
)

// Mappings are the answers about the kinds of many objects: each kind is asked about once. A cluster keeps no answer about a version that is unserved, or
// whose server does not answer. The zero value is empty. It is safe for concurrent use, with one Kinds and one context.
type Mappings struct {
	// mu guards the fields below.
	mu          sync.Mutex
	mappings    map[schema.GroupVersionKind]func() (cluster.Mapping, error)
	definitions map[schema.GroupKind]func() (string, error)
}

// InAnyVersion is MappingInAnyVersion of kinds.
func (m *Mappings) InAnyVersion(ctx context.Context, kinds Kinds, gvk schema.GroupVersionKind) (cluster.Mapping, error) {
	return once(&m.mu, &m.mappings, gvk, func() (cluster.Mapping, error) { return kinds.MappingInAnyVersion(ctx, gvk) })
}

// DefinitionOf is DefinitionOf of kinds.
func (m *Mappings) DefinitionOf(ctx context.Context, kinds Kinds, kind schema.GroupKind) (string, error) {
	return once(&m.mu, &m.definitions, kind, func() (string, error) { return kinds.DefinitionOf(ctx, kind) })
}

// Forget forgets the mapping of a kind.
func (m *Mappings) Forget(gvk schema.GroupVersionKind) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.mappings, gvk)
}

// once returns the answer about a key. Callers at the same time share one question.
func once[K comparable, V any](mu *sync.Mutex, answers *map[K]func() (V, error), key K, ask func() (V, error)) (V, error) {
	mu.Lock()
	answer := (*answers)[key]
	if answer == nil {
		if answer = sync.OnceValues(ask); *answers == nil {
			*answers = map[K]func() (V, error){}
		}
		(*answers)[key] = answer
	}
	mu.Unlock()
	return answer()
}
