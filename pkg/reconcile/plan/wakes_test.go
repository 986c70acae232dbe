package plan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/wanted"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestWakesOutliveAReconcileOfSomeObjects: a reconcile of some objects, as after an edit, leaves the next one of all objects at its time.
func TestWakesOutliveAReconcileOfSomeObjects(t *testing.T) {
	t.Parallel()
	for want, prepare := range map[string]func(p *Planner, o *Object){
		wakeHealth: func(p *Planner, o *Object) { // the status names another object
			p.State.Health, p.State.Schedule.health = &HealthReport{Ill: []Illness{{}}}, p.Now.Add(healthSpacing)
			o.Seen.answer.health, o.Seen.observation = &trigger.Health{Status: "InProgress"}, awaited
			p.Checkup()
		},
		wakeDigest: func(p *Planner, o *Object) {
			o.Entry.Digest = "of another version"
			p.SelectObjects(t.Context(), false)
		},
	} {
		now, d := time.Now(), wanted.ConfigMap("a")
		kept, err := trigger.NewFactory(trigger.NewIndex()).TransformFor("", d.Key.GVR)(fixture.LiveConfigMap("1", nil))
		require.NoError(t, err)
		s := &State{Schedule: Schedule{Resync: now.Add(time.Hour)}}
		s.Objects.SetManifest([]*desired.Object{d})
		o := s.Objects.Track(d.ID)
		o.Entry = fixture.InState(v1alpha1.ObjectApplied, "1")
		index := trigger.NewIndex()
		env := &Env{Watches: shown{kept}, Index: index, Trigger: trigger.NewFactory(index), Recompute: flowcontrol.NewFakeNeverRateLimiter()}
		planner := func(now time.Time, scope Scope) *Planner {
			if scope.All {
				s.Schedule.BeginAll()
			}
			return &Planner{Env: env, Settings: &Settings{Watched: true}, VR: &v1alpha1.VidraResource{}, State: s, Now: now, Scope: scope}
		}
		all := planner(now, Scope{All: true})
		prepare(all, o)
		due := Earliest(all.Wakes(Ending{}))
		require.Equal(t, want, due.Why)
		some := planner(now.Add(time.Millisecond), Scope{})
		some.SelectObjects(t.Context(), false)
		some.Checkup()
		require.Equal(t, due, Earliest(some.Wakes(Ending{})))
		stalled := planner(due.At, Scope{All: true})
		require.Equal(t, wakeResync, Earliest(stalled.Wakes(Ending{Stalled: true})).Why, "no time makes a second reconcile of all objects")
	}
}
