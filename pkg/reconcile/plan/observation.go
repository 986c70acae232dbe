package plan

import (
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// NoteApplied notes which objects were applied and have to be observed.
func (p *Planner) NoteApplied(applied []Task) {
	if !p.Settings.Watched {
		for o := range p.State.All() {
			o.Unobserved = false
		}
		return
	}
	for _, t := range applied {
		if t.Why != WhyDrift && t.Known.In(v1alpha1.ObjectApplied) {
			t.Known.Unobserved, t.Known.watching = true, true
		}
	}
}

// AwaitsWatches records which objects the watches have shown, and reports whether a watch that is
// synced has still to show one.
func (p *Planner) AwaitsWatches() bool {
	awaits := false
	for o := range p.State.All() {
		if o.Unobserved {
			var observed bool
			observed, o.watching = p.isObserved(o)
			o.Unobserved = !observed
			awaits = awaits || o.Unobserved && o.watching
		}
	}
	return awaits
}

// isObserved reports whether a watch has shown an object as it was applied, and whether it is about to. Objects that left the
// manifest or failed since need not be shown.
func (p *Planner) isObserved(o *Object) (observed, watching bool) {
	d := o.Desired
	if d == nil || !o.In(v1alpha1.ObjectApplied) {
		return true, false
	}
	kept, found, synced := p.Env.Watches.Get(p.Settings.WatchKey(d.Key), d.Key.Namespace, d.Key.Name)
	return synced && found && p.Env.Index.HasObserved(p.Settings.Claimant.Owner, d.Key, kept), synced
}

// UnobservedObject returns an object that a synced watch is still to show, or nil. An unsynced
// watch is reported elsewhere.
func (s *State) UnobservedObject() *v1alpha1.ProblemObject {
	for _, o := range s.Manifest { // in the order of the manifest, so that it stays the same
		if o.Unobserved && o.watching {
			return object.ProblemObject(o.Desired.GVK, o.ID)
		}
	}
	return nil
}
