package plan

import (
	"iter"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Objects are the states of all objects of a VidraResource.
type Objects struct {
	// ByID has the objects in Manifest and Others by their identities.
	ByID map[object.Identity]*Object
	// Manifest has the objects of the manifest, in the order in which they are applied; Others has the rest.
	Manifest, Others []*Object
	// kinds are the kinds of the objects in Manifest.
	kinds map[schema.GroupVersionResource]schema.GroupKind
	// Unresolved are the objects of the manifest whose kind is unserved, or that are out of scope.
	Unresolved []desired.Unresolved
	// Waiting is since when objects wait for kinds that the manifest defines.
	Waiting time.Time
}

// Track returns the state of an object, which is new if the object is unknown.
func (s *Objects) Track(id object.Identity) *Object {
	if o := s.ByID[id]; o != nil {
		return o
	}
	if s.ByID == nil {
		s.ByID = map[object.Identity]*Object{}
	}
	o := &Object{ID: id}
	s.ByID[id] = o
	s.Others = append(s.Others, o)
	return o
}

// At returns the state of an object of the manifest; nil if the manifest lacks it.
func (s *Objects) At(key trigger.ObjectKey) *Object {
	o := s.ByID[object.Identity{GroupKind: s.kinds[key.GVR], Namespace: key.Namespace, Name: key.Name}]
	if o == nil || o.Desired == nil || o.Desired.Key != key {
		return nil
	}
	return o
}

// SetManifest makes the objects of the manifest exactly those, in their order.
func (s *Objects) SetManifest(objects []*desired.Object) {
	before := s.Manifest
	for _, o := range before {
		o.Departure.Lasts = o.lasts()
		o.Desired = nil
	}
	s.Manifest, s.kinds = make([]*Object, 0, len(objects)), map[schema.GroupVersionResource]schema.GroupKind{}
	for _, d := range objects {
		o := s.Track(d.ID)
		s.kinds[d.Key.GVR] = d.ID.GroupKind
		o.Desired, o.Departure = d, Departure{}
		s.Manifest = append(s.Manifest, o)
	}
	s.Others = slices.DeleteFunc(append(s.Others, before...), func(o *Object) bool { return o.Desired != nil })
	for _, o := range s.Others {
		o.Attempts.Unlisted, o.Remarks, o.Seen.answer = nil, Remarks{}, healthAnswer{}
		if o.Entry != nil {
			o.Entry.Health = ""
		}
	}
}

// SetUnresolved makes the unresolved objects of the manifest exactly those. They may have a namespace in the inventory alone.
func (s *Objects) SetUnresolved(unresolved []desired.Unresolved) {
	s.Unresolved = unresolved
	waits := desired.MayBe(unresolved)
	for _, o := range s.Others {
		if waits(o.ID) {
			o.Departure = Departure{}
		}
	}
}

// ForgetUnused drops the states of objects that have become unneeded.
func (s *Objects) ForgetUnused() {
	s.Others = slices.DeleteFunc(s.Others, func(o *Object) bool {
		unused := o.unused()
		if unused {
			delete(s.ByID, o.ID)
		}
		return unused
	})
}

// All returns the states of all objects: the objects of the manifest in its order, then the others.
func (s *Objects) All() iter.Seq[*Object] {
	return func(yield func(*Object) bool) {
		for _, list := range [][]*Object{s.Manifest, s.Others} {
			for _, o := range list {
				if !yield(o) {
					return
				}
			}
		}
	}
}

// Inventory returns the objects in the inventory.
func (s *Objects) Inventory() []*Object {
	var listed []*Object
	for o := range s.All() {
		if o.Entry != nil {
			listed = append(listed, o)
		}
	}
	return listed
}

// Problems returns how many objects are not as they should be.
func (s *Objects) Problems() int {
	n := 0
	for o := range s.All() {
		if o.Problem != nil {
			n++
		}
	}
	return n
}

// AwaitsKinds reports whether an object of the manifest waits for its kind to be served.
func (s *Objects) AwaitsKinds() bool {
	return slices.ContainsFunc(s.Unresolved, desired.Unresolved.AwaitsKind)
}

// waitingKinds are the objects of the manifest whose kinds are unserved.
func (s *Objects) waitingKinds() map[object.Identity]bool {
	waiting := make(map[object.Identity]bool, len(s.Unresolved))
	for _, u := range s.Unresolved {
		o := s.ByID[u.ID]
		waiting[u.ID] = o == nil || o.Desired == nil // otherwise it is there in another version
	}
	return waiting
}

// ordered returns the objects in the order of the manifest, then those that are to be removed.
func (s *Objects) ordered() []*Object {
	all := slices.Clone(s.Manifest)
	waiting := s.waitingKinds()
	for _, u := range s.Unresolved {
		if o := s.ByID[u.ID]; waiting[u.ID] && o != nil {
			all = append(all, o)
			waiting[u.ID] = false
		}
	}
	slices.SortFunc(s.Others, func(a, b *Object) int { return CompareForRemoval(a.ID, b.ID) }) // they stay sorted, so that the next call is fast
	for _, o := range s.Others {
		if _, waits := waiting[o.ID]; o.Entry != nil && !waits {
			all = append(all, o)
		}
	}
	return all
}

// Subjects returns the objects of the manifest, with the objects of unserved kinds.
func (s *Objects) Subjects() map[v1alpha1.Subject]bool {
	all := make(map[v1alpha1.Subject]bool, len(s.Manifest)+len(s.Unresolved))
	for _, o := range s.Manifest {
		all[o.ID.Subject()] = true
	}
	for _, u := range s.Unresolved {
		all[u.ID.Subject()] = true
	}
	return all
}

// Namespaces returns the namespaces of the objects of the manifest.
func (s *Objects) Namespaces() map[string]struct{} {
	names := map[string]struct{}{}
	for _, o := range s.Manifest {
		if o.ID.Namespace != "" {
			names[o.ID.Namespace] = struct{}{}
		}
	}
	return names
}
