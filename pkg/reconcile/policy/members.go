package policy

import (
	"strings"

	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Members are the objects that are deleted with their container, as far as that decides about the container: kept objects,
// objects that may be kept, and objects that stay in the manifest, applied or unapplied. They are noted stage by stage, members before
// containers. Reads are safe for concurrent use while nothing is noted.
type Members struct{ Kept, Undecided, Needed Group }

// Decided returns the members except those that are undecided.
func (m *Members) Decided() *Members { return &Members{Kept: m.Kept, Needed: m.Needed} }

// Group are objects with their keys. A key is empty if it is unknown.
type Group map[object.Identity]trigger.ObjectKey

// Add adds an object.
func (g *Group) Add(id object.Identity, key trigger.ObjectKey) {
	if *g == nil {
		*g = Group{}
	}
	(*g)[id] = key
}

// In returns the first object, by its name in messages, that would be deleted with container.
func (g Group) In(container object.Identity) (first object.Identity, found bool) {
	for id, key := range g {
		if GoesWith(container, id, key) && (!found || id.String() < first.String()) {
			first, found = id, true
		}
	}
	return first, found
}

// GoesWith reports whether an object is deleted with container, which is its Namespace or the CustomResourceDefinition of its kind. With
// an empty key, each CustomResourceDefinition of its group may define the object.
func GoesWith(container, id object.Identity, key trigger.ObjectKey) bool {
	switch {
	case container.GroupKind == object.NamespaceKind:
		return id.Namespace == container.Name
	case container.GroupKind != object.CRDKind:
		return false
	case key.Name == "":
		return strings.HasSuffix(container.Name, "."+id.Group)
	}
	return container.Name == key.GVR.Resource+"."+key.GVR.Group
}
