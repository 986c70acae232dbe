package plan

import (
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Completes reports whether an object counts as completed if it is absent: it had ended successfully, or its
// manifest says that it runs once. Where it was deleted while no watch showed it, for example while Vidra was down, the
// end is unknown: it counts as completed then, too, because a migration that runs twice may do more harm than one that
// does not run again. An object that had failed is created again.
func (o *Object) Completes(cause trigger.Cause) bool {
	d, entry := o.Desired, o.Entry
	switch {
	case entry == nil || entry.UID == "" || !d.Lifetime.RemovesItself && !entry.Succeeded && !cause.Succeeded:
		return false
	case entry.Succeeded, cause.Succeeded:
		return true
	case entry.Health == v1alpha1.ObjectUnhealthy:
		return false
	}
	return d.Lifetime.RunsOnce && cause.Deleted || cause.Unsure && (cause.Deleted || !o.Seen.Sighting.Exists)
}

// Sighting is the knowledge of this process about the existence of an object.
type Sighting struct {
	// Exists reports that this process has seen the object, or has applied it: the event of its deletion follows.
	Exists bool
	// missed reports that a resync found the object absent although events missed its deletion.
	missed bool
}

// absenceExpected reports whether an object that is absent from its watch is as expected: it is completed, or the event
// of its deletion, which has its last status, is about to come. After two resyncs without an event its end is unknown.
func (o *Object) absenceExpected(resync bool) bool {
	switch {
	case o.In(v1alpha1.ObjectCompleted):
		return true
	case !o.Desired.Lifetime.RemovesItself || !o.Seen.Sighting.Exists || !o.In(v1alpha1.ObjectApplied):
		return false
	case resync && o.Seen.Sighting.missed:
		o.Seen.Sighting = Sighting{}
		return false
	}
	o.Seen.Sighting.missed = o.Seen.Sighting.missed || resync
	return true
}
