package backstop

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/apply"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/metrics"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// newBackstop returns the backstop of a VidraResource without objects.
func newBackstop(now time.Time) *Backstop {
	return &Backstop{
		Plan: &plan.Planner{
			Env: &plan.Env{Index: trigger.NewIndex(), Metrics: metrics.New()}, Settings: &plan.Settings{Watched: true}, VR: &v1alpha1.VidraResource{},
			State: &plan.State{}, Now: now,
		},
		Interval: time.Hour,
	}
}

// TestSuspectsAreComparedAgain: objects that a LIST did not have, and that have another version when they are read, are
// compared once more after a delay, however many they are.
func TestSuspectsAreComparedAgain(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 3} {
		now := time.Now()
		p := newBackstop(now)
		suspects := map[trigger.ObjectKey]string{}
		for i := range n {
			key := trigger.ObjectKey{GVR: configMaps, Namespace: "shop", Name: string(rune('a' + i))}
			id := fixture.IDOf(fixture.ConfigMapKind, key.Namespace, key.Name)
			p.Plan.State.Objects.Manifest = append(p.Plan.State.Objects.Manifest, &plan.Object{ID: id, Desired: &desired.Object{ID: id, Key: key}})
			suspects[key] = ""
		}
		p.Note(suspects)
		p.Plan.Now = p.Plan.State.Schedule.Suspects
		causes := map[trigger.ObjectKey]trigger.Cause{}
		found := make([]apply.Finding, n)
		for i := range found {
			found[i] = apply.Finding{Live: fixture.LiveConfigMap("u1", nil), Version: "2", Differs: true}
		}
		p.conclude(t.Context(), p.Plan.State.Objects.Manifest, make([]*v1alpha1.ManagedResourceStatus, n), found, causes)
		require.Empty(t, causes, "their events may be on the way")
		require.True(t, p.Plan.State.Objects.Suspects())
		require.Equal(t, p.Plan.Now.Add(suspectDelay), p.Plan.State.Schedule.Suspects)
		p.Plan.Now = p.Plan.State.Schedule.Suspects
		p.conclude(t.Context(), p.Plan.State.Objects.Manifest, make([]*v1alpha1.ManagedResourceStatus, n), found, causes)
		require.Len(t, causes, n, "they still differ in the same version")
		require.False(t, p.Plan.State.Objects.Suspects())
	}
}

// TestLateEvents: a difference is reverted, whatever the reason that no event has reported it. It counts as found by the
// backstop alone only if the watch was not interrupted meanwhile.
func TestLateEvents(t *testing.T) {
	t.Parallel()
	now := time.Now()
	tests := map[string]struct {
		reason string
		// open is when the WATCH began that is open; zero if none is.
		open time.Time
		want int
	}{
		"Open":     {"its event was lost", now.Add(-suspectDelay), 1},
		"Reopened": {"its event may be on the way", now.Add(-suspectDelay + 1), 0},
		"None":     {"its event comes later", time.Time{}, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := newBackstop(now)
			key := trigger.ObjectKey{GVR: configMaps, Namespace: "shop", Name: "a"}
			id, version := fixture.IDOf(fixture.ConfigMapKind, key.Namespace, key.Name), "2"
			o := &plan.Object{ID: id, Desired: &desired.Object{ID: id, Key: key}, Seen: plan.Seen{BackstopSuspect: &version}}
			p.Plan.State.Watching.Watches = map[watchregistry.Key]watchregistry.Status{p.Plan.Settings.WatchKey(key): {State: watchregistry.Synced, StreamSince: tc.open}}
			causes := map[trigger.ObjectKey]trigger.Cause{}
			p.conclude(t.Context(), []*plan.Object{o}, []*v1alpha1.ManagedResourceStatus{nil}, []apply.Finding{{Live: fixture.LiveConfigMap("u1", nil), Version: version, Differs: true}}, causes)
			require.Contains(t, causes, key, tc.reason)
			require.Equal(t, tc.want, testutil.CollectAndCount(p.Plan.Env.Metrics, "vidra_backstop_corrections_total"), tc.reason)
		})
	}
}

// TestHealedSuspects: a comparison with an object that was healed meanwhile says nothing about it.
func TestHealedSuspects(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason  string
		finding apply.Finding
		// heal is the heal during the comparison.
		heal   func(o *plan.Object)
		uid    string
		caused bool
	}{
		"None": {"It is verified.", apply.Finding{Live: fixture.LiveConfigMap("read", nil)}, func(*plan.Object) {}, "read", false},
		"Healed": {"It was created again after the read.", apply.Finding{Live: fixture.LiveConfigMap("read", nil)}, func(o *plan.Object) {
			o.Entry = &v1alpha1.ManagedResourceStatus{UID: "healed"}
		}, "healed", false},
		"Healing": {"It is being created again.", apply.Finding{Live: fixture.LiveConfigMap("read", nil)}, func(o *plan.Object) { o.Turn.Heal() }, "before", false},
		"Differs": {"The change is reverted.", apply.Finding{Live: fixture.LiveConfigMap("read", nil), Version: "2", Differs: true}, func(*plan.Object) {}, "before", true},
		"Reverted": {"The change was reverted after the read.", apply.Finding{Live: fixture.LiveConfigMap("read", nil), Version: "2", Differs: true}, func(o *plan.Object) {
			o.Entry = &v1alpha1.ManagedResourceStatus{UID: "healed"}
		}, "healed", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newBackstop(time.Now())
			key := trigger.ObjectKey{GVR: configMaps, Namespace: "shop", Name: "a"}
			p.Plan.Env.Index.Load(p.Plan.Settings.Claimant.Owner, map[trigger.ObjectKey]trigger.Applied{key: {}})
			id, version := fixture.IDOf(fixture.ConfigMapKind, key.Namespace, key.Name), "2"
			entry := &v1alpha1.ManagedResourceStatus{UID: "before"}
			o := &plan.Object{ID: id, Desired: &desired.Object{ID: id, Key: key}, Seen: plan.Seen{BackstopSuspect: &version}, Entry: entry}
			tc.heal(o)
			causes := map[trigger.ObjectKey]trigger.Cause{}
			p.conclude(t.Context(), []*plan.Object{o}, []*v1alpha1.ManagedResourceStatus{entry}, []apply.Finding{tc.finding}, causes)
			require.Equal(t, tc.uid, o.Entry.UID, tc.reason)
			require.Equal(t, tc.caused, len(causes) > 0, tc.reason)
			require.Nil(t, o.Seen.BackstopSuspect)
		})
	}
}
