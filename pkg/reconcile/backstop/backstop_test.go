package backstop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/apply"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestSuspectsAreComparedAgain: objects that a LIST did not have, and that have another version when they are read, are
// compared once more after a delay, however many they are.
func TestSuspectsAreComparedAgain(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 3} {
		now := time.Now()
		p := &Backstop{
			Planner: &plan.Planner{
				Env: &plan.Env{Index: trigger.NewIndex()}, Settings: &plan.Settings{Watched: true}, VR: &v1alpha1.VidraResource{},
				State: &plan.State{}, Now: now,
			},
			Interval: time.Hour,
		}
		suspects := map[trigger.ObjectKey]string{}
		for i := range n {
			key := trigger.ObjectKey{GVR: configMaps, Namespace: "shop", Name: string(rune('a' + i))}
			id := fixture.IDOf(fixture.ConfigMapKind, key.Namespace, key.Name)
			p.State.Manifest = append(p.State.Manifest, &plan.Object{ID: id, Desired: &desired.Object{ID: id, Key: key}})
			suspects[key] = ""
		}
		p.Note(suspects)
		p.Now = p.State.Schedule.Suspects
		causes := map[trigger.ObjectKey]trigger.Cause{}
		found := make([]apply.Finding, n)
		for i := range found {
			found[i] = apply.Finding{Live: fixture.LiveConfigMap("u1", nil), Version: "2", Differs: true}
		}
		p.conclude(t.Context(), p.State.Manifest, found, causes)
		require.Empty(t, causes, "their events may be on the way")
		require.True(t, p.State.Suspects())
		require.Equal(t, p.Now.Add(suspectDelay), p.State.Schedule.Suspects)
		p.Now = p.State.Schedule.Suspects
		p.conclude(t.Context(), p.State.Manifest, found, causes)
		require.Len(t, causes, n, "they still differ in the same version")
		require.False(t, p.State.Suspects())
	}
}
