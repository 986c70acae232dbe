package reconcile

import (
	"iter"
	"time"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/contention"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// objectState is all that is known of one object between two reconciles. It is made by
// ownerState.track, and dropped by ownerState.forgetUnused.
type objectState struct {
	id identity
	// desired is the object as the manifest has it; nil if the manifest does not have it, or
	// if its kind is not served.
	desired *desired
	// entry is the inventory entry of the object; nil if it is not in the inventory.
	entry *v1alpha1.ManagedResourceStatus
	// sealed is how the status shows the entry if the object has values that are never shown;
	// nil if it is not known to have any.
	sealed *sealedEntry
	// problem is why the object is not as it should be; nil if nothing is known to be wrong.
	problem *failure
	// missingRights are those that the last request that was refused may have lacked.
	missingRights []access
	// drift is set while the object stays as another writer changed it.
	drift *drift
	// contention counts the reverts of the last minute; nil if there were none.
	contention *contention.Tracker
	// additions describes what people added to the object and what stays there.
	additions string
	// warnings are those of the API server about the object. warningsKnown reports that this
	// process has applied the object, so that those in the status are outdated.
	warnings      []string
	warningsKnown bool
	// lastHealth is the health in the last answer of the API server; nil if a watch shows it.
	lastHealth *trigger.Health
	// unobserved reports that no watch has shown the applied object yet; watching, that its
	// watch is synced, and is about to.
	unobserved, watching bool
	// backstopSuspect is the version that the last comparison with the API server found
	// different; nil if it found no difference.
	backstopSuspect *string
	// kindGoneSince is since when the kind of an object that is to be removed is not served;
	// zero while it is.
	kindGoneSince time.Time
}

// unused reports whether nothing is known of the object that a later reconcile needs.
func (o *objectState) unused() bool {
	return o.desired == nil && o.entry == nil && o.problem == nil && o.drift == nil && o.contention == nil
}

// fail notes why the object is not as it should be.
func (o *objectState) fail(reason, message string) { o.problem = &failure{reason, message} }

// in reports whether the object is in the inventory in a state.
func (o *objectState) in(state v1alpha1.ObjectState) bool {
	return o.entry != nil && o.entry.State == state
}

// track returns the state of an object, which is a new one if nothing is known of the object.
func (s *vrState) track(id identity) *objectState {
	if o := s.objects[id]; o != nil {
		return o
	}
	if s.objects == nil {
		s.objects = map[identity]*objectState{}
	}
	o := &objectState{id: id}
	s.objects[id] = o
	s.others = append(s.others, o)
	return o
}

// forgetUnused drops the states of objects that are not needed any more.
func (s *vrState) forgetUnused() {
	kept := s.others[:0]
	for _, o := range s.others {
		if o.unused() {
			delete(s.objects, o.id)
			continue
		}
		kept = append(kept, o)
	}
	clear(s.others[len(kept):])
	s.others = kept
}

// setManifest makes the objects of the manifest exactly those, in their order.
func (s *vrState) setManifest(objects []*desired) {
	before := s.manifest
	for _, o := range before {
		o.desired = nil
	}
	s.manifest = make([]*objectState, 0, len(objects))
	for _, d := range objects {
		o := s.track(d.id)
		o.desired = d
		s.manifest = append(s.manifest, o)
	}
	s.others = append(s.others, before...)
	others := s.others[:0]
	for _, o := range s.others {
		if o.desired == nil {
			o.warnings, o.warningsKnown, o.lastHealth = nil, false, nil
			others = append(others, o)
		}
	}
	clear(s.others[len(others):])
	s.others = others
}

// all returns the states of all objects: those of the manifest in its order, then the others.
func (s *vrState) all() iter.Seq[*objectState] {
	return func(yield func(*objectState) bool) {
		for _, list := range [][]*objectState{s.manifest, s.others} {
			for _, o := range list {
				if !yield(o) {
					return
				}
			}
		}
	}
}

// inventory returns the objects in the inventory.
func (s *vrState) inventory() []*objectState {
	var listed []*objectState
	for o := range s.all() {
		if o.entry != nil {
			listed = append(listed, o)
		}
	}
	return listed
}

// problems returns how many objects are not as they should be.
func (s *vrState) problems() int {
	n := 0
	for o := range s.all() {
		if o.problem != nil {
			n++
		}
	}
	return n
}
