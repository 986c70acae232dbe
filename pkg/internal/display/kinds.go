package display

import (
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// builtIn are the kinds of Kubernetes, such as Service.
var builtIn = sync.OnceValue(func() map[string]bool {
	kinds := map[string]bool{}
	for gvk := range scheme.Scheme.AllKnownTypes() {
		kinds[gvk.Kind] = true
	}
	return kinds
})

// NameOf returns the name of an object, such as "Service shop/web". A kind that has the name of one of Kubernetes gets its group:
// "Service.serving.knative.dev shop/web".
func NameOf(kind schema.GroupKind, namespace, name string) string {
	return Name(kindText(kind, !OfKubernetes(kind.Group) && builtIn()[kind.Kind]), namespace, name)
}

// QualifiedNameOf is NameOf, with the group in any case. Kinds of the core group have none.
func QualifiedNameOf(kind schema.GroupKind, namespace, name string) string {
	return Name(kindText(kind, true), namespace, name)
}

// kindText returns a kind, with its group if it is qualified and has one.
func kindText(kind schema.GroupKind, qualified bool) string {
	if !qualified || kind.Group == "" {
		return kind.Kind
	}
	return kind.Kind + "." + kind.Group
}

// OfKubernetes reports whether a group is one of Kubernetes.
func OfKubernetes(group string) bool {
	return !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io")
}

// Kinds is a set of kinds that are named side by side. The zero value is empty.
type Kinds struct {
	// groups are the groups of each kind: the first one, and whether there are others.
	groups map[string]groups
}

type groups struct {
	first   string
	several bool
}

// Add adds a kind.
func (k *Kinds) Add(kind schema.GroupKind) {
	if k.groups == nil {
		k.groups = map[string]groups{}
	}
	g, known := k.groups[kind.Kind]
	switch {
	case !known:
		k.groups[kind.Kind] = groups{first: kind.Group}
	case g.first != kind.Group && !g.several:
		g.several = true
		k.groups[kind.Kind] = g
	}
}

// Ambiguous reports whether the set has a kind of the same name in another group.
func (k *Kinds) Ambiguous(kind schema.GroupKind) bool {
	g, known := k.groups[kind.Kind]
	return known && (g.several || g.first != kind.Group)
}

// Kind returns a kind, with its group where that is ambiguous.
func (k *Kinds) Kind(kind schema.GroupKind) string {
	return kindText(kind, k.Ambiguous(kind) || !OfKubernetes(kind.Group) && builtIn()[kind.Kind])
}

// Name returns the name of an object, with the group of its kind where that is ambiguous.
func (k *Kinds) Name(kind schema.GroupKind, namespace, name string) string {
	return Name(k.Kind(kind), namespace, name)
}
