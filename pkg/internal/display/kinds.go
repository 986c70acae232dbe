package display

import (
	"slices"
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
	return new(Kinds).Name(kind, namespace, name)
}

// QualifiedNameOf is NameOf, with the group in any case. Kinds of the core group have none.
func QualifiedNameOf(kind schema.GroupKind, namespace, name string) string {
	return Name(kind.String(), namespace, name)
}

// OfKubernetes reports whether a group is one of Kubernetes.
func OfKubernetes(group string) bool {
	return !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io")
}

// Kinds is a set of kinds that are named side by side. The zero value is empty.
type Kinds struct {
	// groups are the groups of each kind: two of them, if there are more.
	groups map[string][]string
}

// Add adds a kind.
func (k *Kinds) Add(kind schema.GroupKind) {
	groups := k.groups[kind.Kind]
	if len(groups) == 2 || slices.Contains(groups, kind.Group) {
		return
	}
	if k.groups == nil {
		k.groups = map[string][]string{}
	}
	k.groups[kind.Kind] = append(groups, kind.Group)
}

// Ambiguous reports whether the set has a kind of the same name in another group.
func (k *Kinds) Ambiguous(kind schema.GroupKind) bool {
	return slices.ContainsFunc(k.groups[kind.Kind], func(group string) bool { return group != kind.Group })
}

// Kind returns a kind, with its group where that is ambiguous.
func (k *Kinds) Kind(kind schema.GroupKind) string {
	if k.Ambiguous(kind) || !OfKubernetes(kind.Group) && builtIn()[kind.Kind] {
		return kind.String()
	}
	return kind.Kind
}

// Name returns the name of an object, with the group of its kind where that is ambiguous.
func (k *Kinds) Name(kind schema.GroupKind, namespace, name string) string {
	return Name(k.Kind(kind), namespace, name)
}
