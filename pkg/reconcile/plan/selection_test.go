package plan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/wanted"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// withoutKey returns a Planner of a VidraResource whose generation was observed, with an object whose applied configuration fails to open.
func withoutKey(state v1alpha1.ObjectState) (*Planner, *Object) {
	d := wanted.ConfigMap("a")
	d.Configuration = "new"
	p := &Planner{VR: &v1alpha1.VidraResource{}, State: &State{}}
	p.VR.Generation, p.State.Status.ObservedGeneration = 2, 2
	p.State.Objects.SetManifest([]*desired.Object{d})
	o := p.State.Objects.ByID[d.ID]
	o.Entry = fixture.InState(state, "1")
	o.Entry.Configuration = ""
	return p, o
}

// TestNoteUnchanged: an object whose applied configuration fails to open has that of the observed generation, unless its last apply failed.
func TestNoteUnchanged(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason  string
		state   v1alpha1.ObjectState
		changed bool
	}{
		"Applied":   {"It was applied.", v1alpha1.ObjectApplied, false},
		"Drifted":   {"It was applied, and edited.", v1alpha1.ObjectDrifted, false},
		"Completed": {"It would run again.", v1alpha1.ObjectCompleted, false},
		"Failed":    {"A policy about edits would have the former manifest stay.", v1alpha1.ObjectFailed, true},
		"Pending":   {"It is still to be applied.", v1alpha1.ObjectPending, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, o := withoutKey(tc.state)
			require.Equal(t, tc.changed, p.changedSince(o.Entry, o.Desired), tc.reason)
			p.NoteUnchanged()
			require.Equal(t, tc.changed, o.Entry.Configuration == "", tc.reason)
		})
	}
}

// TestHoldBackWithoutKey: an object whose applied configuration fails to open waits with the newer manifest, if there may be one.
func TestHoldBackWithoutKey(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		change func(*v1alpha1.VidraResourceSpec)
		waits  bool
	}{
		"Spec":     {"The observed generation has the applied manifest.", func(*v1alpha1.VidraResourceSpec) {}, false},
		"Sources":  {"A source may have changed since.", func(spec *v1alpha1.VidraResourceSpec) { spec.ManifestFrom = []v1alpha1.ManifestSource{{}} }, true},
		"Rollback": {"The earlier revision may be unreadable.", func(spec *v1alpha1.VidraResourceSpec) { spec.Revision = &v1alpha1.RevisionPolicy{Hold: true, To: 1} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, o := withoutKey(v1alpha1.ObjectApplied)
			tc.change(&p.VR.Spec)
			todo, waits := p.HoldBack(Plan{Apply: []Task{{Object: o.Desired, Known: o, Why: WhyDrift}}}, object.Failure{Reason: v1alpha1.ReasonRevisionHeld})
			require.Equal(t, tc.waits, waits, tc.reason)
			require.Equal(t, tc.waits, len(todo.Apply) == 0, tc.reason)
		})
	}
}
