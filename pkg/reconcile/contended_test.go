package reconcile

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/apply"
	"github.com/vidra-operator/vidra/pkg/reconcile/contention"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/metrics"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// fielded is a Recorder that keeps the Events.
type fielded struct{ all []events.Event }

// TestContentionAboutAnObject: a writer that deletes an object again and again contends for
// no field, so no Event names one.
func TestContentionAboutAnObject(t *testing.T) {
	l := newLab(t, colors("a"))
	vr := l.get(t)
	vr.Spec.Drift = &v1alpha1.DriftPolicy{HealsPerMinute: 2}
	require.NoError(t, l.client.Update(t.Context(), vr))
	l.mustPass(t)
	told := &fielded{}
	l.Reports.Recorder = told
	for range 3 {
		l.mustPass(t, "a")
	}
	for _, e := range told.all {
		require.Empty(t, e.Fields, "%s: %s", e.Reason, e.Note)
	}
	contended := told.withReason(v1alpha1.ReasonDriftContended)
	require.Len(t, contended, 1)
	require.Contains(t, contended[0].Note, "another writer keeps changing the object")
}

// TestTwoWriters has another writer overwrite an object at once whenever Vidra heals it, for
// ten minutes. A heal and the write after it take a millisecond.
func TestTwoWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lasts, took = 10 * time.Minute, time.Millisecond
		l := newLab(t, colors("a"))
		vr := l.get(t)
		vr.Spec.Drift = nil // the default settings
		require.NoError(t, l.client.Update(t.Context(), vr))
		l.mustPass(t)
		told := &fielded{}
		l.Reports.Recorder = told
		object := trigger.ObjectKey{GVR: fixture.ConfigMaps, Namespace: "default", Name: "a"}
		heals, passes, statuses, held := 0, 0, 0, false
		var longest time.Duration
		for start := time.Now(); time.Since(start) < lasts; {
			since := time.Now()
			l.Watching.Trigger.RequeueCauses(faulty, trigger.Causes{Objects: map[trigger.ObjectKey]trigger.Cause{object: {Deleted: true, Since: since}}})
			for healed := false; !healed; passes++ {
				l.done = nil
				result, err := l.Reconcile(t.Context(), reconcile.Request{NamespacedName: faulty})
				require.NoError(t, err)
				for _, request := range l.done {
					healed = healed || request == "a"
					if request == "status" {
						statuses++
					}
				}
				if !healed {
					held = held || *result.Priority == trigger.ContendedPriority // otherwise the status is due before
					time.Sleep(result.RequeueAfter)
				}
			}
			heals++
			longest = max(longest, time.Since(since))
			elapsed := time.Since(start).Seconds()
			allowed := contention.HealBurst + 10*min(elapsed, 60) + max(0, elapsed-60)
			require.LessOrEqual(t, float64(heals), allowed+1, "after %.3f s", elapsed)
			time.Sleep(took)
		}
		require.GreaterOrEqual(t, heals, 100+600+540-5, "no token is wasted")
		require.LessOrEqual(t, longest, time.Second+time.Millisecond)
		require.True(t, held)
		require.LessOrEqual(t, passes, 2*heals+int(lasts/plan.HealFlush), "a held heal is scheduled for the time at which it is due")
		require.LessOrEqual(t, statuses, 5+int(lasts/(plan.HealFlush+contention.DelayedFlush)), "the status gathers heals")
		require.Len(t, told.withReason(v1alpha1.ReasonDriftContended), 1)
		require.Len(t, told.withReason(events.ReasonDriftCorrected), heals, "each heal is told; the recorder makes a series of them")
		require.Empty(t, told.withReason(events.ReasonDriftSettled))
		require.Equal(t, v1alpha1.ObjectContended, l.get(t).Status.ManagedResources[0].State)

		// After a restart the object is still contended, and no Event tells so again.
		l.restart()
		l.Reports.Recorder = told
		l.mustPass(t)
		l.mustPass(t, "a")
		require.Equal(t, v1alpha1.ObjectContended, l.get(t).Status.ManagedResources[0].State)
		require.Len(t, told.withReason(v1alpha1.ReasonDriftContended), 1)

		// A quiet minute ends it, and gives the burst back.
		result, err := l.Reconcile(t.Context(), reconcile.Request{NamespacedName: faulty})
		require.NoError(t, err)
		time.Sleep(contention.Window - time.Second)
		l.mustPass(t)
		require.Empty(t, told.withReason(events.ReasonDriftSettled), "not before")
		require.LessOrEqual(t, result.RequeueAfter, contention.Window+time.Second)
		time.Sleep(2 * time.Second)
		l.mustPass(t)
		require.Len(t, told.withReason(events.ReasonDriftSettled), 1)
		require.Equal(t, v1alpha1.ObjectApplied, l.get(t).Status.ManagedResources[0].State)
		for range contention.HealBurst {
			require.Contains(t, l.mustPass(t, "a"), "a")
		}
	})
}

// TestStructuralHealsCostTwo: an edit that is undone with two requests takes two tokens, so
// half as many of them are undone without a delay.
func TestStructuralHealsCostTwo(t *testing.T) {
	t.Parallel()
	now := time.Now()
	value, structural := &apply.Change{}, &apply.Change{Added: ownership.Addition{Changes: []ownership.Change{{Path: "spec.volumes[0].hostPath"}}}}
	for name, tc := range map[string]struct {
		heal  *apply.Change
		heals int
	}{"Value": {value, contention.HealBurst}, "Structural": {structural, contention.HealBurst / 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := contention.New()
			for range tc.heals {
				require.Equal(t, now, c.Next(now))
				c.Healed(nil, tc.heal.Requests(), 5, now)
			}
			require.True(t, c.Next(now).After(now))
		})
	}
}

// TestHeldHealDelaysNoOther: while the heal of one object is held, another one that
// changed is healed at once, and a changed manifest is applied.
func TestHeldHealDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, colors("a", "b"))
		l.Reports.Metrics = metrics.New()
		l.mustPass(t)
		edit := func(names ...string) []string {
			causes := trigger.Causes{Objects: map[trigger.ObjectKey]trigger.Cause{}}
			for _, name := range names {
				causes.Objects[trigger.ObjectKey{GVR: fixture.ConfigMaps, Namespace: "default", Name: name}] = trigger.Cause{Deleted: true, Since: time.Now()}
			}
			l.Watching.Trigger.RequeueCauses(faulty, causes)
			return l.mustPass(t)
		}
		for range contention.HealBurst {
			require.Contains(t, edit("a"), "a")
		}
		require.True(t, l.ready(t), "each change was reverted at once")
		require.NotContains(t, l.mustPass(t, "a"), "a", "its bucket is empty, also for a change that no event told of")
		done := edit("a", "b")
		require.NotContains(t, done, "a")
		require.Contains(t, done, "b")
		require.False(t, l.ready(t))
		require.InDelta(t, 1, testutil.ToFloat64(l.Reports.Metrics.HeldHeals.WithLabelValues("", "ConfigMap")), 0, "one heal was delayed")
		drifted := meta.FindStatusCondition(l.get(t).Status.Conditions, v1alpha1.ConditionDrifted)
		require.Equal(t, v1alpha1.ReasonDriftContended, drifted.Reason)
		vr := l.get(t)
		vr.Spec.Drift.Mode, vr.Generation = v1alpha1.DriftIgnore, vr.Generation+1
		require.NoError(t, l.client.Update(t.Context(), vr))
		l.mustPass(t)
		require.False(t, l.states.all[faulty].plan.Objects.Manifest[0].Edits.Contention.NotBefore.After(time.Now()), "what is not healed is not held")
	})
}
