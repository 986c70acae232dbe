package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/wanted"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/trigger"
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

// TestHealsWhileDriftIsUnjudged: the loop of objects may be about to record the additions in an object that is as expected. The first reconcile that
// compares all objects awaits that, and reports the additions.
func TestHealsWhileDriftIsUnjudged(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason                 string
		heals, unjudged, judge bool
	}{
		"Healing": {"The status would lose the additions.", true, true, true},
		"AtRest":  {"The additions in it are recorded.", false, true, false},
		"Judged":  {"The heal reports what it finds.", true, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const manager = "vidra/shop"
			d, live, index, owner := wanted.ConfigMap("page"), fixture.LiveConfigMap("1", nil, manager), trigger.NewIndex(), trigger.Owner{Name: "shop"}
			index.Load(owner, map[trigger.ObjectKey]trigger.Applied{d.Key: {Manager: manager, Digest: trigger.DigestOf(live, manager, false, nil)}})
			kept, err := trigger.NewFactory(index).TransformFor("", d.Key.GVR)(live)
			require.NoError(t, err)
			s := &State{Inherited: Inherited{Unjudged: tc.unjudged}}
			s.Objects.SetManifest([]*desired.Object{d})
			o := s.Objects.ByID[d.ID]
			if o.Entry = fixture.InState(v1alpha1.ObjectApplied, "1"); tc.heals {
				o.Turn.Heal()
			}
			env := &Env{Watches: shown{kept}, Index: index, Trigger: trigger.NewFactory(index), Recompute: flowcontrol.NewFakeNeverRateLimiter()}
			p := &Planner{Env: env, Settings: &Settings{Watched: true}, VR: &v1alpha1.VidraResource{}, State: s, Scope: Scope{All: true}}
			p.Settings.Claimant.Owner = owner
			require.Equal(t, tc.judge, p.SelectObjects(t.Context(), false)[d.Key].Unsure, tc.reason)
			require.False(t, s.Inherited.Unjudged)
		})
	}
}
