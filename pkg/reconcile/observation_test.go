package reconcile

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/limits"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestStatusWaitsForTheWatches: the status is written after the watches have shown the applied objects, and no worker waits
// for that.
func TestStatusWaitsForTheWatches(t *testing.T) {
	const unshown = "ConfigMap default/a: is applied, and its watch has not shown it yet"
	request := func(vr *v1alpha1.VidraResource) {
		vr.Annotations = map[string]string{v1alpha1.ReconcileRequestedAtAnnotation: "now"}
	}
	suspend := func(vr *v1alpha1.VidraResource) {
		vr.Generation++
		vr.Spec.Suspend = true
	}
	cases := map[string]struct {
		reason string
		// then happens while the status waits.
		then func(l *lab, end func())
		// change is a change of the VidraResource meanwhile. Optional.
		change func(vr *v1alpha1.VidraResource)
		waits  time.Duration
		ready  string
	}{
		"Shown":     {"The watch ends the wait.", func(l *lab, _ func()) { l.unshown.Store(false) }, nil, 2 * plan.ObserveMin, "All objects are applied (1)"},
		"Unshown":   {"It is written in any case.", func(*lab, func()) {}, nil, plan.ObserveTimeout, unshown},
		"Ended":     {"The end of the process ends the wait, and the next one writes the status.", func(_ *lab, end func()) { end() }, nil, plan.ObserveMin, "Applying the manifest"},
		"Requested": {"A request waits, and takes effect.", func(*lab, func()) {}, request, plan.ObserveTimeout, unshown},
		"Suspended": {"A changed spec waits, too, so that the Events of this one are told.", func(*lab, func()) {}, suspend, plan.ObserveTimeout, unshown},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				type end struct {
					again bool
					err   error
				}
				l, ends := newLab(t, colors("a")), make(chan end, 1)
				l.bounds.workers = &limits.Workers{Ended: func(_ trigger.Owner, again bool, _ reconcile.Result, err error) { ends <- end{again, err} }}
				l.unshown.Store(true)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				began := time.Now()
				pass := func() {
					result, err := l.Reconcile(ctx, reconcile.Request{NamespacedName: faulty})
					require.NoError(t, err)
					require.Zero(t, result)
				}
				pass()
				require.Zero(t, time.Since(began), "no worker waits")
				synctest.Wait()
				require.Equal(t, []string{"status", "a"}, l.done, "the inventory and the object")
				tc.then(l, cancel)
				if tc.change != nil {
					vr := l.get(t)
					tc.change(vr)
					require.NoError(t, l.client.Update(t.Context(), vr))
					pass()
					require.Zero(t, time.Since(began), "no worker waits")
				}
				got := <-ends
				require.NoError(t, got.err)
				require.LessOrEqual(t, time.Since(began), tc.waits, tc.reason)
				if ctx.Err() == nil {
					require.Equal(t, []string{"status", "a", "status"}, l.done, tc.reason)
				} else {
					require.Equal(t, []string{"status", "a"}, l.done, tc.reason)
				}
				require.Equal(t, tc.ready, meta.FindStatusCondition(l.get(t).Status.Conditions, v1alpha1.ConditionReady).Message, tc.reason)
				if require.Equal(t, tc.change != nil, got.again, "the VidraResource is reconciled again"); !got.again {
					return
				}
				l.unshown.Store(false)
				l.bounds.workers = nil
				_, err := l.Reconcile(ctx, reconcile.Request{NamespacedName: faulty})
				require.NoError(t, err)
				vr := l.get(t)
				require.Equal(t, vr.ReconcileRequest(), vr.Status.LastHandledReconcileAt)
				require.Equal(t, vr.Generation, vr.Status.ObservedGeneration)
			})
		})
	}
}
