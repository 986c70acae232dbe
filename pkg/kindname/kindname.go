// Package kindname names objects in messages, with the group of a kind where the kind alone is ambiguous.
package kindname

import (
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/vidra-operator/vidra/pkg/internal/display"
)

// builtIn are the kinds of Kubernetes, such as Service.
var builtIn = sync.OnceValue(func() map[string]bool {
	kinds := map[string]bool{}
	for gvk := range scheme.Scheme.AllKnownTypes() {
		kinds[gvk.Kind] = true
	}
	return kinds
})

// Of returns the name of an object, such as "Service shop/web". A kind that has the name of one of Kubernetes gets its group:
// "Service.serving.knative.dev shop/web".
func Of(kind schema.GroupKind, namespace, name string) string {
	return display.Name(text(kind, !OfKubernetes(kind.Group) && builtIn()[kind.Kind]), namespace, name)
}

// Qualified is Of, with the group in any case. Kinds of the core group have none.
func Qualified(kind schema.GroupKind, namespace, name string) string {
	return display.Name(text(kind, true), namespace, name)
}

func text(kind schema.GroupKind, qualified bool) string {
	if !qualified || kind.Group == "" {
		return kind.Kind
	}
	return kind.Kind + "." + kind.Group
}

// OfKubernetes reports whether a group is one of Kubernetes.
func OfKubernetes(group string) bool {
	return !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io")
}

// Set is a set of kinds that are named side by side. The zero value is empty.
type Set struct {
	// groups are the groups of each kind: the first one, and whether there are others.
	groups map[string]groups
}

type groups struct {
	first   string
	several bool
}

// Add adds a kind.
func (s *Set) Add(kind schema.GroupKind) {
	if s.groups == nil {
		s.groups = map[string]groups{}
	}
	g, known := s.groups[kind.Kind]
	switch {
	case !known:
		s.groups[kind.Kind] = groups{first: kind.Group}
	case g.first != kind.Group && !g.several:
		g.several = true
		s.groups[kind.Kind] = g
	}
}

// Ambiguous reports whether the set has a kind of the same name in another group.
func (s *Set) Ambiguous(kind schema.GroupKind) bool {
	g, known := s.groups[kind.Kind]
	return known && (g.several || g.first != kind.Group)
}

// Kind returns a kind, with its group where that is ambiguous.
func (s *Set) Kind(kind schema.GroupKind) string {
	return text(kind, s.Ambiguous(kind) || !OfKubernetes(kind.Group) && builtIn()[kind.Kind])
}

// Name returns the name of an object, with the group of its kind where that is ambiguous.
func (s *Set) Name(kind schema.GroupKind, namespace, name string) string {
	return display.Name(s.Kind(kind), namespace, name)
}
