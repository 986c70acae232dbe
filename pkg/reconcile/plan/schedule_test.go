package plan

import (
	"testing"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/ending"
	"github.com/vidra-operator/vidra/pkg/reconcile/contention"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/limits"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/policy"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestNoAppointmentIsKeptTwice: a time that has passed is no reason for another pass,
// whatever keeps this one from doing something about it.
func TestNoAppointmentIsKeptTwice(t *testing.T) {
	t.Parallel()
	now := time.Now()
	id := object.Identity{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "shop", Name: "a"}
	d := &desired.Object{ID: id, Key: trigger.ObjectKey{Name: "a"}}
	for name, o := range map[string]Ending{"Stalled": {Stalled: true, All: true}, "Blocked": {Blocked: true, All: true}, "Failing": {All: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &Planner{
				VR: &v1alpha1.VidraResource{}, Now: now, Findings: Findings{PendingDrift: map[trigger.ObjectKey]trigger.Cause{d.Key: {}}},
				State: &State{Schedule: Schedule{Resync: now.Add(time.Hour)}, Health: &HealthReport{Ill: []Illness{{
					Health: trigger.Health{Status: kstatus.TerminatingStatus, WaitsSince: now.Add(-2 * ending.Grace).Unix()}, // as of the last check
				}}}, Objects: Objects{Manifest: []*Object{{
					ID: id, Desired: d, Edits: Edits{Drift: &Drift{Decision: policy.Leave(policy.BreakGlass, "", now.Add(-time.Second))},
						Contention: &contention.Tracker{Began: now, LastHeal: now.Add(-2 * contention.Window), NotBefore: now.Add(-time.Second)},
					},
				}}}},
			}
			p.State.Schedule.Attempted(p.Failed(o), o.All, now)
			next := Earliest(p.Wakes(o))
			require.GreaterOrEqual(t, next.At.Sub(now), limits.RetryMin/2, next.Why)
		})
	}
}

// TestBlockedDeletionIsChecked: a reconcile of some objects, at whose time a deletion counts as blocked, has all of them
// checked.
func TestBlockedDeletionIsChecked(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p := &Planner{VR: &v1alpha1.VidraResource{}, Now: now, State: &State{
		Schedule: Schedule{Resync: now.Add(time.Hour)},
		Health: &HealthReport{Ill: []Illness{{
			Health: trigger.Health{Status: kstatus.TerminatingStatus, WaitsSince: now.Add(-2 * ending.Grace).Unix()},
		}}},
	}}
	require.Equal(t, wakeBlocked, Earliest(p.Wakes(Ending{})).Why)
}

func TestEarliest(t *testing.T) {
	t.Parallel()
	now := time.Now()
	cases := map[string]struct {
		reason string
		wakes  []Wake
		want   Wake
	}{
		"First":  {"The first one wakes.", []Wake{{now.Add(2), wakeResync}, {now.Add(1), wakeRetry}, {now.Add(3), wakeFlush}}, Wake{now.Add(1), wakeRetry}},
		"NoTime": {"What is not to be done has no time.", []Wake{{time.Time{}, wakeRetry}, {now, wakeResync}}, Wake{now, wakeResync}},
	}
	for name, tc := range cases {
		require.Equal(t, tc.want, Earliest(tc.wakes), "%s: %s", name, tc.reason)
	}
}

// TestAttempted shows when what failed is tried again.
func TestAttempted(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var s Schedule
	s.Attempted(true, true, now)
	require.WithinRange(t, s.Retry, now.Add(limits.RetryMin), now.Add(2*limits.RetryMin))
	first := s
	s.Attempted(true, false, now)
	require.Equal(t, first, s, "a failure before it is due does not postpone it")
	s.Attempted(false, false, now)
	require.Equal(t, first, s, "a reconcile of some objects does not end it")
	for range 50 {
		now = s.Retry
		s.Attempted(true, true, now)
	}
	require.WithinRange(t, s.Retry, now.Add(limits.RetryMax/2), now.Add(limits.RetryMax+limits.RetryMax/4))
	s.Attempted(false, true, now)
	require.Equal(t, Schedule{}, s, "nothing is left to be retried")
}
