package plan

import (
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// observation is the observation of an applied object by its watch.
type observation int

const (
	observed   observation = iota // the watch has shown the object, or need not
	unobserved                    // the watch is unsynced
	awaited                       // the watch is synced, and is about to show the object
)

// NoteApplied notes which objects were applied and have to be observed.
func (p *Planner) NoteApplied(applied []Task) {
	if !p.Settings.Watched {
		for o := range p.State.Objects.All() {
			o.Seen.observation = observed
		}
		return
	}
	for _, t := range applied {
		if t.Why != WhyDrift && t.Known.In(v1alpha1.ObjectApplied) {
			t.Known.Seen.observation = awaited
		}
	}
}

// AwaitsWatches records which objects the watches have shown, and reports whether a watch that is
// synced has still to show one.
func (p *Planner) AwaitsWatches() bool {
	awaits := false
	for o := range p.State.Objects.All() {
		if o.Seen.observation != observed {
			o.Seen.observation = p.observe(o)
			awaits = awaits || o.Seen.observation == awaited
		}
	}
	return awaits
}

// observe returns the observation of an object as it was applied. Objects that left the manifest or failed since need not be shown.
func (p *Planner) observe(o *Object) observation {
	d := o.Desired
	if d == nil || !o.In(v1alpha1.ObjectApplied) {
		return observed
	}
	kept, found, synced := p.stored(d.Key)
	switch {
	case !synced:
		return unobserved
	case found && p.Env.Index.HasObserved(p.Settings.Claimant.Owner, d.Key, kept):
		return observed
	}
	return awaited
}

// UnobservedObject returns an object that a synced watch is still to show, or nil. An unsynced
// watch is reported elsewhere.
func (s *Objects) UnobservedObject() *v1alpha1.ProblemObject {
	for _, o := range s.Manifest { // in the order of the manifest, so that it stays the same
		if o.Seen.observation == awaited {
			return object.ProblemObject(o.Desired.GVK, o.ID)
		}
	}
	return nil
}
