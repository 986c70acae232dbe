package trigger

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// healRig is a rig with the loop of objects.
type healRig struct {
	*rig
	heals priorityqueue.PriorityQueue[Heal]
}

func newHealRig(t *testing.T) *healRig {
	t.Helper()
	r := &healRig{newRig(t), priorityqueue.New[Heal](t.Name() + "/heals")}
	t.Cleanup(r.heals.ShutDown)
	require.NoError(t, r.HealSource().Start(t.Context(), r.heals))
	r.apply("blue", "100", nil)
	return r
}

// queued takes what the two loops have to do.
func (r *healRig) queued() (heals []Heal, owners int) {
	for synctest.Wait(); r.heals.Len() > 0; synctest.Wait() {
		h, _, _ := r.heals.GetWithPriority()
		r.heals.Done(h)
		heals = append(heals, h)
	}
	for synctest.Wait(); r.queue.Len() > 0; synctest.Wait() {
		request, _, _ := r.queue.GetWithPriority()
		r.queue.Done(request)
		owners++
	}
	return heals, owners
}

// TestMailbox: an edit goes to the loop of objects with its first time and its latest state, unless a reconcile of the owner has the object in hand.
func TestMailbox(t *testing.T) {
	h := Heal{owner, key}
	one := []Heal{h}
	cases := map[string]struct {
		reason string
		do     func(t *testing.T, r *healRig)
		heals  []Heal
		owners int
		// byHeal and byOwner are the causes that the loops take then.
		byHeal, byOwner bool
	}{
		"Edit": {"The owner is not reconciled.", func(t *testing.T, r *healRig) { t.Helper(); r.event(t, configMap("red", "101")) }, one, 0, true, false},
		"Edits": {"The heal of the first reverts all.", func(t *testing.T, r *healRig) {
			t.Helper()
			r.event(t, configMap("red", "101"))
			r.event(t, configMap("green", "102"))
		}, one, 0, true, false},
		"ContendedAndDue": {"The heal waits for no other object, either.", func(t *testing.T, r *healRig) {
			t.Helper()
			r.Contend(owner, key, time.Now())
			r.event(t, configMap("red", "101"))
		}, one, 0, true, false},
		"ContendedAndDelayed": {"The heal waits for its time.", func(t *testing.T, r *healRig) {
			t.Helper()
			r.Contend(owner, key, time.Now().Add(time.Second))
			r.event(t, configMap("red", "101"))
			heals, owners := r.queued()
			require.Empty(t, heals)
			require.Zero(t, owners)
			time.Sleep(time.Second)
		}, one, 0, true, false},
		"HandedOver": {"A reconcile decides.", func(t *testing.T, r *healRig) {
			t.Helper()
			r.event(t, configMap("red", "101"))
			cause, found := r.TakeHeal(h)
			require.True(t, found)
			r.queued()
			r.HandOver(h, cause)
		}, nil, 1, false, true},
		"EditAfterHandOver": {"The reconcile gets the later edit, too.", func(t *testing.T, r *healRig) {
			t.Helper()
			r.event(t, configMap("red", "101"))
			cause, _ := r.TakeHeal(h)
			r.queued()
			r.HandOver(h, cause)
			r.event(t, configMap("green", "102"))
		}, nil, 1, false, true},
		"EditWhileHealed": {"It is another heal.", func(t *testing.T, r *healRig) {
			t.Helper()
			r.event(t, configMap("red", "101"))
			r.TakeHeal(h)
			r.queued()
			r.event(t, configMap("green", "102"))
		}, one, 0, true, false},
		"Reconciled": {"A reconcile leaves it to the loop of objects.", func(t *testing.T, r *healRig) {
			t.Helper()
			r.event(t, configMap("red", "101"))
			require.Empty(t, r.TakeCauses(owner).Objects)
		}, one, 0, true, false},
		"Released": {"Nothing is left of a released owner.", func(t *testing.T, r *healRig) {
			t.Helper()
			r.event(t, configMap("red", "101"))
			r.queued()
			r.Release(owner)
		}, nil, 0, false, false},
		"Resumed": {"What waits in the mailbox is enqueued again.", func(t *testing.T, r *healRig) {
			t.Helper()
			r.event(t, configMap("red", "101"))
			r.queued()
			other := key
			other.Name = "other"
			r.ResumeHeals(owner, []ObjectKey{key, other})
		}, one, 0, true, false},
		"Report": {"Heals are reported by a reconcile that compares no objects.", func(t *testing.T, r *healRig) {
			t.Helper()
			r.Report(owner, 0)
			require.True(t, r.TakeCauses(owner).Report)
		}, nil, 1, false, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newHealRig(t)
				began := time.Now()
				tc.do(t, r)
				heals, owners := r.queued()
				require.Equal(t, tc.heals, heals, tc.reason)
				require.Equal(t, tc.owners, owners, tc.reason)
				cause, byHeal := r.TakeHeal(h)
				require.Equal(t, tc.byHeal, byHeal, tc.reason)
				if byHeal {
					require.Equal(t, began, cause.Since)
				}
				_, byOwner := r.TakeCauses(owner).Objects[key]
				require.Equal(t, tc.byOwner, byOwner, tc.reason)
			})
		})
	}
}

// TestMailboxKeepsTheFirstTime: a cause that comes while an object is healed is as old as the one that the heal gives back.
func TestMailboxKeepsTheFirstTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHealRig(t)
		began := time.Now()
		r.event(t, configMap("red", "101"))
		cause, _ := r.TakeHeal(Heal{owner, key})
		time.Sleep(time.Second)
		r.event(t, configMap("green", "102"))
		r.HandOver(Heal{owner, key}, cause)
		_, byHeal := r.TakeHeal(Heal{owner, key})
		require.False(t, byHeal, "one loop takes both")
		taken := r.TakeCauses(owner).Objects[key]
		require.Equal(t, began, taken.Since)
		require.Equal(t, "green", taken.Found.Object["data"].(map[string]any)["color"])
	})
}
