package reconcile

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestStatusWaitsForTheWatches: the status is written after the watches have shown what was
// applied, and no worker waits for that.
func TestStatusWaitsForTheWatches(t *testing.T) {
	cases := map[string]struct {
		reason string
		// then is what happens while the status waits.
		then  func(t *testing.T, l *lab)
		done  []string
		ready bool
	}{
		"Shown":   {"It is written once.", func(_ *testing.T, l *lab) { l.unshown = false }, []string{"status"}, true},
		"Unshown": {"It is written in any case.", func(*testing.T, *lab) { time.Sleep(plan.ObserveTimeout) }, []string{"status"}, false},
		"Edit":    {"An edit does not wait.", func(t *testing.T, l *lab) { require.Equal(t, []string{"status", "a"}, l.mustPass(t, "a")) }, nil, false},
		"Changed": {
			"Another manifest waits, too, so that the Events of this one are told. Then it is applied, by the same reconcile.",
			func(t *testing.T, l *lab) {
				l.edit(t, colors("a", "b"))
				require.Empty(t, l.mustPass(t))
				l.unshown = false
			}, []string{"status", "status", "a", "b", "status"}, true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, colors("a"))
				l.unshown = true
				began := time.Now()
				require.Equal(t, []string{"status", "a"}, l.mustPass(t), "the inventory and the object")
				require.Empty(t, l.mustPass(t), "nothing more is done")
				require.Zero(t, time.Since(began), "and no worker waited")
				tc.then(t, l)
				if tc.done != nil {
					require.Equal(t, tc.done, l.mustPass(t), tc.reason)
				}
				ready := meta.FindStatusCondition(l.get(t).Status.Conditions, v1alpha1.ConditionReady)
				if !tc.ready {
					require.Equal(t, "ConfigMap default/a: is applied, and its watch has not shown it yet", ready.Message)
				} else {
					require.Equal(t, v1alpha1.ReasonApplied, ready.Reason, tc.reason)
				}
			})
		})
	}
}

// TestChangeWhileTheStatusWaits: what is changed in a VidraResource while its status waits for the watches takes effect when
// the status is written, and not at the next interval.
func TestChangeWhileTheStatusWaits(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(vr *v1alpha1.VidraResource)
		// took reports whether the change took effect.
		took func(vr *v1alpha1.VidraResource) bool
	}{
		"Request": {"A reconcile was requested.", func(vr *v1alpha1.VidraResource) {
			vr.Annotations = map[string]string{v1alpha1.ReconcileRequestedAtAnnotation: "now"}
		}, func(vr *v1alpha1.VidraResource) bool { return vr.Status.LastHandledReconcileAt == "now" }},
		"Suspend": {"The spec suspends it.", func(vr *v1alpha1.VidraResource) {
			vr.Generation++
			vr.Spec.Suspend = true
		}, func(vr *v1alpha1.VidraResource) bool { return vr.Status.ObservedGeneration == vr.Generation }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, colors("a"))
				l.unshown = true
				l.mustPass(t)
				vr := l.get(t)
				tc.change(vr)
				require.NoError(t, l.client.Update(t.Context(), vr))
				l.unshown = false
				l.mustPass(t)
				require.True(t, tc.took(l.get(t)), tc.reason)
			})
		})
	}
}

// TestPostponedStatusThatFails: causes that come while a status waits survive that it cannot be written.
func TestPostponedStatusThatFails(t *testing.T) {
	l := newLab(t, colors("a"))
	l.unshown = true
	l.mustPass(t)
	l.failWrites = 1
	l.Trigger.RequeueCauses(faulty, trigger.Causes{Retry: true, Gone: true})
	l.unshown = false
	_, err := l.Reconcile(t.Context(), reconcile.Request{NamespacedName: faulty})
	require.ErrorContains(t, err, "is away")
	causes := l.Trigger.TakeCauses(faulty)
	require.True(t, causes.Retry && causes.Gone)
}

// TestPostponedStatusIsDropped: when Vidra ends, the next process finds what was applied, and
// what it does not find is told.
func TestPostponedStatusIsDropped(t *testing.T) {
	l := newLab(t, colors("a"))
	l.unshown = true
	l.mustPass(t)
	s := l.states[faulty]
	require.NotNil(t, s.postponed)
	s.PendingEvents = append(s.PendingEvents, events.Change{Action: events.Pruned})
	require.NoError(t, l.FlushEvents(t.Context()))
	require.Nil(t, s.postponed)
	require.Equal(t, []string{events.ReasonPruned}, l.told)
	result, err := l.Reconcile(t.Context(), reconcile.Request{NamespacedName: faulty})
	require.NoError(t, err)
	require.Zero(t, result)
}
