package trigger

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestContendedDriftWaits delivers the events of a writer that changes an object a
// thousand times a second.
func TestContendedDriftWaits(t *testing.T) {
	cases := map[string]struct {
		reason   string
		contend  func(r *rig)
		wait     time.Duration
		priority int
	}{
		"NotContended": {"Drift comes first.", func(*rig) {}, 0, driftPriority},
		"Due": {
			"The drift of other objects goes before that of a contended one.",
			func(r *rig) { r.Contend(owner, key, time.Now()) }, 0, ContendedPriority,
		},
		"Held": {
			"A heal that is not due costs no reconcile, however often the object changes.",
			func(r *rig) { r.Contend(owner, key, time.Now().Add(5*time.Second)) }, 5 * time.Second, ContendedPriority,
		},
		"Over": {
			"What is not contended any more is drift as any other.",
			func(r *rig) {
				r.Contend(owner, key, time.Now().Add(5*time.Second))
				r.EndContention(owner, key)
			}, 0, driftPriority,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.apply("blue", "100", nil)
				tc.contend(r)
				began := time.Now()
				for i := range 1000 {
					r.event(t, configMap("red", strconv.Itoa(101+i)))
					if tc.wait > 0 {
						synctest.Wait()
						require.Zero(t, r.queue.Len(), tc.reason)
						time.Sleep(time.Millisecond)
					}
				}
				if tc.wait > 0 {
					time.Sleep(tc.wait - time.Since(began))
				}
				synctest.Wait()
				name, priority := r.next()
				require.Equal(t, owner.Name, name, tc.reason)
				require.Equal(t, tc.priority, priority, tc.reason)
				require.Equal(t, began, r.TakeCauses(owner).Objects[key].Since, "the first foreign value counts")
				time.Sleep(time.Hour)
				require.Zero(t, r.queue.Len(), "one reconcile for all of them")
			})
		})
	}
}

// TestHeldHealDelaysNoOther changes another object of an owner whose contended object is
// held.
func TestHeldHealDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.apply("blue", "100", nil)
		r.Contend(owner, key, time.Now().Add(5*time.Second))
		r.queue.AddWithOpts(priorityqueue.AddOpts{After: 5 * time.Second}, reconcile.Request{NamespacedName: owner})
		r.event(t, configMap("red", "101"))
		other := key
		other.Name = "other"
		r.note(owner, other, Cause{})
		synctest.Wait()
		name, priority := r.next()
		require.Equal(t, owner.Name, name)
		require.Equal(t, driftPriority, priority)
	})
}

// TestCausesKeepTheirTime: what a held heal gives back is as old as it was, whatever came
// meanwhile, and an apply ends it.
func TestCausesKeepTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.apply("blue", "100", nil)
		began := time.Now()
		r.event(t, configMap("red", "101"))
		taken := r.TakeCauses(owner)
		time.Sleep(time.Second)
		r.event(t, configMap("green", "102"))
		r.RequeueCauses(owner, taken)
		require.Equal(t, began, r.TakeCauses(owner).Objects[key].Since)
		r.apply("blue", "103", nil)
		time.Sleep(time.Second)
		r.event(t, configMap("green", "104"))
		require.Equal(t, time.Now(), r.TakeCauses(owner).Objects[key].Since)
	})
}
