package policy

import (
	"strings"

	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Members are the objects that are deleted with their container, as far as that decides about the container: kept objects,
// undecided objects, and objects of the manifest. They are noted stage by stage, members before containers. Nil is
// empty. Reads are safe for concurrent use while nothing is noted.
type Members struct {
	kept, undecided, needed map[object.Identity]trigger.ObjectKey
}

// Keep notes an object that is kept. The key is empty if it is unknown.
func (m *Members) Keep(id object.Identity, key trigger.ObjectKey) {
	if m.kept == nil {
		m.kept = map[object.Identity]trigger.ObjectKey{}
	}
	m.kept[id] = key
}

// Undecided notes an object that may be kept. The key is empty if it is unknown.
func (m *Members) Undecided(id object.Identity, key trigger.ObjectKey) {
	if m.undecided == nil {
		m.undecided = map[object.Identity]trigger.ObjectKey{}
	}
	m.undecided[id] = key
}

// Need notes an object that stays in the manifest, applied or unapplied.
func (m *Members) Need(id object.Identity, key trigger.ObjectKey) {
	if m.needed == nil {
		m.needed = map[object.Identity]trigger.ObjectKey{}
	}
	m.needed[id] = key
}

// Decided returns the members except those that are undecided.
func (m *Members) Decided() *Members { return &Members{kept: m.kept, needed: m.needed} }

// KeptIn returns an object that would be deleted with container, and that is kept.
func (m *Members) KeptIn(container object.Identity) (id object.Identity, found bool) {
	if m == nil {
		return object.Identity{}, false
	}
	return memberOf(m.kept, container)
}

// UndecidedIn returns an object that would be deleted with container, and that may be kept.
func (m *Members) UndecidedIn(container object.Identity) (id object.Identity, found bool) {
	if m == nil {
		return object.Identity{}, false
	}
	return memberOf(m.undecided, container)
}

// NeededIn returns an object that would be deleted with container, and that stays in the manifest.
func (m *Members) NeededIn(container object.Identity) (id object.Identity, found bool) {
	if m == nil {
		return object.Identity{}, false
	}
	return memberOf(m.needed, container)
}

// memberOf returns the first of members, by its name in messages, that is deleted with container.
func memberOf(members map[object.Identity]trigger.ObjectKey, container object.Identity) (first object.Identity, found bool) {
	for id, key := range members {
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
