package limits

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/trigger"
)

func heal(owner, cluster, resource string, n int) trigger.Heal {
	return trigger.Heal{Owner: trigger.Owner{Name: owner}, Key: trigger.ObjectKey{
		Cluster: cluster, GVR: schema.GroupVersionResource{Version: "v1", Resource: resource}, Name: fmt.Sprint(n),
	}}
}

// TestGateBounds fills a Gate with heals that do not end.
func TestGateBounds(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		make   func(n int) trigger.Heal
		want   int
	}{
		"OneKindOfOne":   {"A kind of a VidraResource that hangs leaves slots to its others.", func(n int) trigger.Heal { return heal("a", "", "secrets", n) }, gateOfOwnKind[heals]},
		"KindsOfOne":     {"A VidraResource leaves slots to others.", func(n int) trigger.Heal { return heal("a", "", fmt.Sprint(n), n) }, gateOfVidraResource[heals]},
		"OneKind":        {"A kind that hangs leaves slots to others.", func(n int) trigger.Heal { return heal(fmt.Sprint(n), "", "secrets", n) }, gateOfCluster.both / 2},
		"OneCluster":     {"A cluster that hangs leaves slots to others.", func(n int) trigger.Heal { return heal(fmt.Sprint(n), "far", fmt.Sprint(n), n) }, GateSlots / 2},
		"DifferentInAll": {"All together are bounded.", func(n int) trigger.Heal { return heal(fmt.Sprint(n), fmt.Sprint(n), fmt.Sprint(n), n) }, GateSlots},
		"VersionsOfAKind": {"Two versions are one kind.", func(n int) trigger.Heal {
			h := heal("a", "", "secrets", n)
			h.Key.GVR.Version = fmt.Sprint(n)
			return h
		}, gateOfOwnKind[heals]},
		"NamespacesOfAOne": {"Namespaces share the slots of their VidraResource.", func(n int) trigger.Heal { h := heal("a", "", "secrets", n); h.Key.Namespace = fmt.Sprint(n); return h }, gateOfOwnKind[heals]},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var woken []trigger.Heal
			g := NewGate(func(h trigger.Heal) { woken = append(woken, h) })
			const all = 3 * GateSlots
			var entered []trigger.Heal
			for n := range all {
				if h := tc.make(n); g.Enter(h) {
					entered = append(entered, h)
				}
				require.Equal(t, n < tc.want, len(entered) == n+1, tc.reason)
			}
			require.False(t, g.Enter(tc.make(all-1)), "it waits once")
			for n := range all { // each that ends wakes the next
				g.Leave(entered[n], Answered)
				if n < all-tc.want {
					require.Len(t, woken, n+1)
					require.True(t, g.Enter(woken[n]))
					entered = append(entered, woken[n])
				}
			}
			require.Len(t, woken, all-tc.want)
			require.Empty(t, g.shares)
			require.Empty(t, g.kinds)
			require.Empty(t, g.clusters)
			require.Empty(t, slices.Concat(g.turns[:]...))
			require.Empty(t, g.waits)
			require.Empty(t, g.absent)
			require.Zero(t, g.total)
		})
	}
}

// TestGateLeavesSlots: kinds of one VidraResource, kinds of one cluster, and clusters that hang leave slots to a further one.
func TestGateLeavesSlots(t *testing.T) {
	t.Parallel()
	cases := map[string]func(hangs, n int) trigger.Heal{
		"KindsOfOne":     func(hangs, n int) trigger.Heal { return heal("a", "", fmt.Sprint(hangs), n) },
		"KindsOfCluster": func(hangs, n int) trigger.Heal { return heal(fmt.Sprint(n), "", fmt.Sprint(hangs), n) },
		"Clusters":       func(hangs, n int) trigger.Heal { return heal(fmt.Sprint(n), fmt.Sprint(hangs), fmt.Sprint(n), n) },
	}
	for name, hang := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewGate(func(trigger.Heal) {})
			before := GateSlots
			for hangs := range 4 {
				entered := 0
				for n := range GateSlots {
					if g.Enter(hang(hangs, n)) {
						entered++
					}
				}
				require.Positive(t, entered)
				require.LessOrEqual(t, entered, before/2)
				before = entered
			}
			require.True(t, g.Enter(hang(4, 0)))
		})
	}
}

// TestGateAfterNoAnswer: a kind of a VidraResource has one slot from the first request without an answer until one is
// answered.
func TestGateAfterNoAnswer(t *testing.T) {
	t.Parallel()
	var woken []trigger.Heal
	g := NewGate(func(h trigger.Heal) { woken = append(woken, h) })
	secret := func(n int) trigger.Heal { return heal("a", "", "secrets", n) }
	require.True(t, g.Enter(secret(0)))
	g.Leave(secret(0), Unanswered)
	require.True(t, g.Enter(secret(1)))
	for n := range 5 {
		require.False(t, g.Enter(secret(2+n)))
	}
	require.True(t, g.Enter(heal("a", "", "configmaps", 0)), "other kinds do not notice")
	require.True(t, g.Enter(heal("b", "", "secrets", 0)), "nor do other VidraResources")
	g.Leave(secret(1), NotAsked)
	require.Equal(t, []trigger.Heal{secret(2)}, woken, "in the order of their arrival")
	require.True(t, g.Enter(secret(2)))
	g.Leave(secret(2), Answered)
	require.Len(t, woken, 5, "all others")

	g.Leave(heal("b", "", "secrets", 0), Unanswered)
	require.NotNil(t, g.shares[trigger.Owner{Name: "b"}])
	g.Forget(trigger.Owner{Name: "b"})
	require.Nil(t, g.shares[trigger.Owner{Name: "b"}])
	g.Forget(trigger.Owner{Name: "stranger"})
}

// TestGateTakesTurns has one VidraResource wait with many heals before another one comes.
func TestGateTakesTurns(t *testing.T) {
	t.Parallel()
	var woken []trigger.Heal
	g := NewGate(func(h trigger.Heal) { woken = append(woken, h) })
	other := func(n int) trigger.Heal { return heal(fmt.Sprint("other", n), "", "secrets", n) }
	for n := range gateOfCluster.both / 2 {
		require.True(t, g.Enter(other(n)))
	}
	for n := range 10 {
		require.False(t, g.Enter(heal("many", "", "secrets", n)))
	}
	require.False(t, g.Enter(heal("one", "", "secrets", 0)))
	for n := range 2 {
		g.Leave(other(n), Answered)
	}
	require.Equal(t, []trigger.Heal{heal("many", "", "secrets", 0), heal("one", "", "secrets", 0)}, woken)
}

// enterRoutine enters a Gate with a context that has ended, and reports whether there was a slot.
func enterRoutine(t *testing.T, g *Gate, h trigger.Heal) (leave func(Answer), ok bool) {
	t.Helper()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	leave, err := g.Routine(ended, h)
	return leave, err == nil
}

// TestRoutineBounds fills a Gate with routine work that does not end: heals find slots.
func TestRoutineBounds(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		make   func(n int) trigger.Heal
		want   int
	}{
		"OneKindOfOne": {"A kind of a VidraResource.", func(n int) trigger.Heal { return heal("a", "", "secrets", n) }, gateOfOwnKindFirst[routine]},
		"KindsOfOne":   {"A VidraResource.", func(n int) trigger.Heal { return heal("a", "", fmt.Sprint(n), n) }, gateOfVidraResource[routine]},
		"OneKind":      {"A kind.", func(n int) trigger.Heal { return heal(fmt.Sprint(n), "", "secrets", n) }, routineOfKind},
		"OneCluster":   {"A cluster.", func(n int) trigger.Heal { return heal(fmt.Sprint(n), "far", fmt.Sprint(n), n) }, gateOfCluster.routine},
		"All":          {"All together.", func(n int) trigger.Heal { return heal(fmt.Sprint(n), fmt.Sprint(n), fmt.Sprint(n), n) }, gateOfAll.routine},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewGate(func(trigger.Heal) { require.Fail(t, "no heal waits") })
			var leaves []func(Answer)
			for n := range GateSlots {
				if leave, ok := enterRoutine(t, g, tc.make(n)); ok {
					leaves = append(leaves, leave)
				}
			}
			require.Len(t, leaves, tc.want, tc.reason)
			require.True(t, g.Enter(tc.make(0)), "a heal has a slot")
			g.Leave(tc.make(0), Answered)
			for _, leave := range leaves {
				leave(Answered)
			}
			require.Empty(t, g.shares)
			require.Empty(t, g.kinds)
			require.Empty(t, g.clusters)
			require.Empty(t, slices.Concat(g.turns[:]...))
			require.Empty(t, g.waits)
			require.Zero(t, g.total)
		})
	}
}

// TestRoutineWaits: routine work waits for a slot, after the heals. A VidraResource whose requests are answered has more and more of them at a
// time, and one whose requests hang leaves the slots to others.
func TestRoutineWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var woken []trigger.Heal
		g := NewGate(func(h trigger.Heal) { woken = append(woken, h) })
		secret := func(owner string, n int) trigger.Heal { return heal(owner, "", "secrets", n) }
		leaves := make(chan func(Answer), GateSlots)
		enter := func(h trigger.Heal) {
			go func() {
				if leave, err := g.Routine(t.Context(), h); err == nil {
					leaves <- leave
				}
			}()
			synctest.Wait()
		}
		leave := func(answer Answer) {
			(<-leaves)(answer)
			synctest.Wait()
		}
		each := gateOfOwnKindFirst[routine]
		for n := range routineOfKind {
			enter(secret(fmt.Sprint("hangs", n/each), n))
		}
		for n := range (gateOfCluster.both - routineOfKind) / 2 {
			require.True(t, g.Enter(secret(fmt.Sprint("heals", n), n)))
		}
		enter(secret("one", 0))
		require.False(t, g.Enter(secret("other", 1)))
		require.Len(t, leaves, routineOfKind, "it waits")
		leave(Unanswered)
		require.Equal(t, []trigger.Heal{secret("other", 1)}, woken)
		require.Len(t, leaves, routineOfKind, "and the routine work that waits")
		time.Sleep(hangsAfter)
		synctest.Wait()
		enter(secret("two", 0))
		require.Len(t, leaves, routineOfKind+1, "requests that hang take no slot from others")
		for len(leaves) > 0 {
			leave(Unanswered)
		}
		require.Zero(t, g.hanging)
		for n := range 20 {
			enter(secret("hangs0", 100+n))
		}
		require.Len(t, leaves, gateOfOwnKindThatHung[routine], "until one is answered")
		for _, want := range []int{4, 8, 16, 16} {
			leave(Answered)
			require.Len(t, leaves, min(want, gateOfOwnKind[routine]))
		}
	})
}

// TestKindThatHangs: the requests about a kind that fill all slots of a reconcile leave them to other kinds once they hang.
func TestKindThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(func(trigger.Heal) { require.Fail(t, "no heal waits") })
		var leaves []func(Answer)
		enter := func(kind string, n int) bool {
			leave, ok := enterRoutine(t, g, heal("a", "", kind, n))
			if ok {
				leaves = append(leaves, leave)
			}
			return ok
		}
		require.True(t, enter("secrets", 0))
		for n := range 4 { // the answers leave the largest bound
			require.True(t, enter("secrets", n+1))
			leaves[1](Answered)
			leaves = leaves[:1]
		}
		for n := range gateOfVidraResource[routine] - 1 {
			require.True(t, enter("secrets", n+10))
		}
		require.False(t, enter("configmaps", 0))
		time.Sleep(hangsAfter)
		synctest.Wait()
		require.True(t, enter("configmaps", 1))
		require.False(t, enter("secrets", 100), "the kind has its own bound")
		for _, leave := range leaves {
			leave(Unanswered)
		}
		require.Zero(t, g.hanging)
		require.Zero(t, g.total)
	})
}

// TestRoutineBesideHeals: a reconcile has few requests in flight while objects of its VidraResource are healed, and more and more once no heal
// has run for a while.
func TestRoutineBesideHeals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(func(trigger.Heal) { require.Fail(t, "no heal waits") })
		secret := func(owner string, n int) trigger.Heal { return heal(owner, "", "secrets", n) }
		fill := func(owner string) (leaves []func(Answer)) {
			for n := range GateSlots {
				if leave, ok := enterRoutine(t, g, secret(owner, n)); ok {
					leaves = append(leaves, leave)
				}
			}
			return leaves
		}
		all := func(leaves []func(Answer)) {
			for _, leave := range leaves {
				leave(Answered)
			}
		}
		edited := heal("one", "", "configmaps", 0)
		require.True(t, g.Enter(edited))
		during := fill("one")
		require.Len(t, during, besideHeals, "also of another kind than the edited object")
		other := fill("other")
		require.Len(t, other, gateOfOwnKindFirst[routine], "another VidraResource")
		g.Leave(edited, Answered)
		time.Sleep(besideHealsFor - time.Millisecond)
		require.Empty(t, fill("one"), "the next heal is probable")
		time.Sleep(time.Millisecond)
		after := fill("one")
		require.Len(t, after, gateOfOwnKindFirst[routine]-besideHeals)
		all(slices.Concat(during, other, after))
		require.Empty(t, g.shares)
	})
}
