package trigger

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/healthcheck"
)

// reporting is an object whose value is ours, and whose controller says whether it is
// ready and why.
func reporting(value, version, ready, message string) *unstructured.Unstructured {
	u := configMap(value, version)
	u.SetAPIVersion("example.com/v1")
	u.SetKind("Widget")
	u.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": ready, "message": message}}}
	return u
}

// change delivers an object that was kept as before; nil if there was none.
func (r *rig) change(t *testing.T, before *Snapshot, u *unstructured.Unstructured) *Snapshot {
	t.Helper()
	kept, err := r.TransformFor("", configMaps)(u)
	require.NoError(t, err)
	if before == nil {
		r.handler.OnAdd(kept, false)
	} else {
		r.handler.OnUpdate(before, kept)
	}
	return kept.(*Snapshot)
}

// nextAfter is the owner that a worker gets once a time has passed, and not before.
func (r *rig) nextAfter(t *testing.T, wait time.Duration) string {
	t.Helper()
	synctest.Wait()
	if wait > 0 {
		time.Sleep(wait - time.Millisecond)
		synctest.Wait()
		require.Zero(t, r.queue.Len(), "before its time")
		time.Sleep(time.Millisecond)
		synctest.Wait()
	}
	name, _ := r.next()
	return name
}

func TestOwnersAreToldOfHealth(t *testing.T) {
	cases := map[string]struct {
		reason        string
		before, after *unstructured.Unstructured
		want          time.Duration
	}{
		"BornCurrent":  {"There is nothing to tell.", nil, reporting("blue", "101", "True", ""), 0},
		"BornUnready":  {"An object that is not done is news.", nil, reporting("blue", "101", "False", "wet"), statusDelay},
		"Worse":        {"It was done.", reporting("blue", "101", "True", ""), reporting("blue", "102", "False", "wet"), statusDelay},
		"Better":       {"It is done.", reporting("blue", "101", "False", "wet"), reporting("blue", "102", "True", ""), statusDelay},
		"OtherMessage": {"It is not done for another reason.", reporting("blue", "101", "False", "wet"), reporting("blue", "102", "False", "damp"), messageDelay},
		"Same":         {"A status that says the same is no news.", reporting("blue", "101", "False", "wet"), reporting("blue", "102", "False", "wet"), 0},
		"StillCurrent": {"What a controller says of what is done is no news.", reporting("blue", "101", "True", "a"), reporting("blue", "102", "True", "b"), 0},
		"Stale": {"Health is that of the last event, also of one that is older than our apply.",
			reporting("blue", "98", "True", ""), reporting("blue", "99", "False", "wet"), statusDelay},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.apply("blue", "100", nil)
				var before *Snapshot
				if tc.before != nil {
					before = r.change(t, nil, tc.before)
					time.Sleep(statusDelay)
					synctest.Wait()
					r.next()
					r.TakeCauses(owner)
				}
				r.change(t, before, tc.after)
				if tc.want == 0 {
					time.Sleep(time.Hour)
				}
				name := r.nextAfter(t, tc.want)
				require.Equal(t, tc.want > 0, name == owner.Name, tc.reason)
				require.Equal(t, Causes{Health: tc.want > 0}, stripped(r.TakeCauses(owner)), "health is no drift")
			})
		})
	}
}

// TestHealthOfMissingObjects: an object that the owner did not find may be Current when it is shown again, and was unhealthy before.
func TestHealthOfMissingObjects(t *testing.T) {
	t.Parallel()
	for name, inFlight := range map[string]bool{"quiet": false, "while it is applied": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.apply("blue", "100", nil)
				r.index.AwaitHealth(owner, true)
				if inFlight {
					r.index.Begin(owner, key, manager)
				}
				shown := r.change(t, nil, reporting("blue", "101", "True", ""))
				require.Equal(t, owner.Name, r.nextAfter(t, statusDelay))
				require.Equal(t, Causes{Health: true}, stripped(r.TakeCauses(owner)))
				r.change(t, shown, reporting("blue", "102", "True", "a"))
				time.Sleep(time.Hour)
				require.Empty(t, r.nextAfter(t, 0), "it is found")
				r.index.AwaitHealth(owner, false)
				r.change(t, nil, reporting("blue", "103", "True", ""))
				time.Sleep(time.Hour)
				require.Empty(t, r.nextAfter(t, 0))
			})
		})
	}
}

// TestHealthOfSkippedStates: a reconcile may have read the health, and the fields of other managers, from a state in the store that no handler receives.
func TestHealthOfSkippedStates(t *testing.T) {
	wet, done := func(version, message string) *unstructured.Unstructured {
		return reporting("blue", version, "False", message)
	}, func(version string) *unstructured.Unstructured {
		return reporting("blue", version, "True", "")
	}
	cases := map[string]struct {
		reason string
		before *unstructured.Unstructured
		states []*unstructured.Unstructured
		want   time.Duration
		others bool
	}{
		"New":        {"The object was unready in between.", nil, []*unstructured.Unstructured{wet("101", ""), done("102")}, statusDelay, false},
		"Flickers":   {"It was done before, and is again.", done("101"), []*unstructured.Unstructured{wet("102", ""), done("103")}, statusDelay, false},
		"Earlier":    {"The change is some states ago.", done("101"), []*unstructured.Unstructured{wet("102", ""), done("103"), done("104"), done("105")}, statusDelay, false},
		"Message":    {"Another message is less urgent.", wet("101", "a"), []*unstructured.Unstructured{wet("102", "b"), wet("103", "a")}, messageDelay, false},
		"Both":       {"The more urgent change counts.", wet("101", "a"), []*unstructured.Unstructured{done("102"), wet("103", "b"), wet("104", "a")}, statusDelay, false},
		"Same":       {"All states are the same.", done("101"), []*unstructured.Unstructured{done("102"), done("103")}, 0, false},
		"Others":     {"Another manager wrote a field, and released it.", othersIn("blue", "101", "a"), []*unstructured.Unstructured{othersIn("blue", "102", "a", "c"), othersIn("blue", "103", "a")}, 0, true},
		"SameOthers": {"The same fields.", othersIn("blue", "101", "a"), []*unstructured.Unstructured{othersIn("blue", "102", "a"), othersIn("blue", "103", "a")}, 0, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.apply("blue", "100", nil)
				var before, last *Snapshot
				if tc.before != nil {
					before = r.change(t, nil, tc.before)
					time.Sleep(time.Hour)
					synctest.Wait()
					r.next()
					r.TakeCauses(owner)
				}
				for _, u := range tc.states {
					kept, err := r.TransformFor("", configMaps)(u)
					require.NoError(t, err)
					if last != nil {
						kept.(*Snapshot).Skip(last)
					}
					last = kept.(*Snapshot)
				}
				if before == nil {
					r.handler.OnAdd(last, false)
				} else {
					r.handler.OnUpdate(before, last)
				}
				if tc.want > 0 {
					require.Equal(t, owner.Name, r.nextAfter(t, tc.want), tc.reason)
				}
				require.Equal(t, Causes{Health: tc.want > 0, Others: tc.others}, stripped(r.TakeCauses(owner)), tc.reason)
				require.Nil(t, last.pending.Load(), "it is freed")
			})
		})
	}
}

// stripped are causes without a map that is empty.
func stripped(c Causes) Causes {
	if len(c.Objects) == 0 {
		c.Objects = nil
	}
	return c
}

func TestEveryOwnerIsToldOfHealthAndNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.index.Load(Owner{Name: "stranger"}, nil)
		r.change(t, nil, reporting("blue", "100", "False", "wet"))
		require.False(t, r.TakeCauses(owner).Health, "the object has no owner yet")
		other := Owner{Name: "other"}
		for _, o := range []Owner{owner, other} {
			r.index.Load(o, map[ObjectKey]Applied{key: appliedAt("blue", "100")})
		}
		r.change(t, nil, reporting("blue", "100", "False", "wet"))
		require.True(t, r.TakeCauses(owner).Health)
		require.True(t, r.TakeCauses(other).Health)
		require.True(t, r.TakeCauses(Owner{Name: "stranger"}).Empty())
	})
}

func TestHealthIsToldDuringAnApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.apply("blue", "100", func() { r.change(t, nil, reporting("blue", "100", "False", "wet")) })
		require.Equal(t, owner.Name, r.nextAfter(t, statusDelay))
		require.Equal(t, Causes{Health: true}, stripped(r.TakeCauses(owner)))
	})
}

func TestBurstsOfHealthAreOnePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.apply("blue", "100", nil)
		var before *Snapshot
		for i := range 51 {
			before = r.change(t, before, reporting("blue", strconv.Itoa(101+i), []string{"False", "True"}[i%2], ""))
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, owner.Name, r.nextAfter(t, statusDelay-51*time.Millisecond), "the first one says when")
		require.True(t, r.TakeCauses(owner).Health)
		time.Sleep(time.Hour)
		require.Zero(t, r.queue.Len())

		for i := range 50 { // a status that is written again and again
			before = r.change(t, before, reporting("blue", strconv.Itoa(200+i), "False", ""))
		}
		time.Sleep(time.Hour)
		require.Zero(t, r.queue.Len())
		require.True(t, r.TakeCauses(owner).Empty())
		foreign := r.metrics.verdicts.WithLabelValues("", "", "v1", "configmaps", string(VerdictForeign))
		require.InDelta(t, 100, testutil.ToFloat64(foreign), 0, "and each event has the verdict that it had")
	})
}

// TestHealthDelaysNoDrift has health and drift come in either order, and in one event.
func TestHealthDelaysNoDrift(t *testing.T) {
	cases := map[string]struct {
		reason string
		events []*unstructured.Unstructured
	}{
		"DriftFirst":  {"What is ready stays ready.", []*unstructured.Unstructured{reporting("red", "101", "True", ""), reporting("red", "102", "False", "")}},
		"HealthFirst": {"What waits becomes ready.", []*unstructured.Unstructured{reporting("blue", "101", "False", ""), reporting("red", "102", "False", "")}},
		"Together":    {"An edit can break an object.", []*unstructured.Unstructured{reporting("red", "101", "False", "")}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.apply("blue", "100", nil)
				before := r.change(t, nil, reporting("blue", "100", "True", ""))
				for _, u := range tc.events {
					before = r.change(t, before, u)
					synctest.Wait()
				}
				began := time.Now()
				name, priority := r.next()
				require.Equal(t, owner.Name, name, tc.reason)
				require.Equal(t, driftPriority, priority, tc.reason)
				require.Zero(t, time.Since(began))
				causes := r.TakeCauses(owner)
				require.True(t, causes.Health)
				require.Contains(t, causes.Objects, key)
				time.Sleep(time.Hour)
				require.Zero(t, r.queue.Len(), "one pass deals with both")
			})
		})
	}
}

func TestHealthDoesNotWaitForTheNextResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.apply("blue", "100", nil)
		r.queue.AddWithOpts(priorityqueue.AddOpts{After: time.Hour}, reconcile.Request{NamespacedName: owner})
		before := r.change(t, nil, reporting("blue", "101", "False", "wet"))
		r.change(t, before, reporting("blue", "102", "False", "damp"))
		require.Equal(t, owner.Name, r.nextAfter(t, statusDelay), "nor for what may wait longer")
	})
}

func TestHealthWithAPlainQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer queue.ShutDown()
		require.NoError(t, r.Source().Start(t.Context(), queue))
		r.apply("blue", "100", nil)
		r.change(t, nil, reporting("blue", "101", "False", "wet"))
		synctest.Wait()
		require.Zero(t, queue.Len())
		time.Sleep(statusDelay)
		synctest.Wait()
		require.Equal(t, 1, queue.Len())
	})
}

func TestLedgerKeepsHealth(t *testing.T) {
	l := newPendingCauses(newMetrics().overflows, nil)
	l.merge(owner, Causes{Health: true})
	causes := l.take(owner)
	require.True(t, causes.Health)
	require.False(t, causes.Empty(), "there is something to look at")
	require.True(t, l.take(owner).Empty(), "it is handed over once")

	l.merge(owner, causes)
	require.True(t, l.take(owner).Health, "what was not dealt with is not lost")
	l.merge(owner, Causes{Health: true})
	l.merge(owner, Causes{All: true})
	causes = l.take(owner)
	require.True(t, causes.Health && causes.All, "nor is what is newer")
	l.merge(owner, Causes{Retry: true})
	l.merge(owner, Causes{All: true})
	require.True(t, l.take(owner).Retry, "nor is that a right was granted")

	l.merge(owner, Causes{Health: true})
	l.drop(owner, key)
	require.True(t, l.take(owner).Health, "that an object is as it was applied says nothing of its health")
}

func TestSnapshotsTellWhatIsSpecial(t *testing.T) {
	require.Nil(t, newSpecial(Health{Status: status.CurrentStatus}, "", false, false, nil), "which most objects do not pay for")
	for _, health := range []Health{
		{Status: status.CurrentStatus}, {Status: status.InProgressStatus, Message: "wet"}, {Status: status.FailedStatus, Message: "dry"},
		{Status: status.TerminatingStatus, Message: "old"}, {Status: status.TerminatingStatus, Message: "held", WaitsSince: 1767323045}, {Status: status.UnknownStatus, Message: "odd"},
	} {
		s := &Snapshot{special: newSpecial(health, "", false, false, nil)}
		require.Equal(t, health, s.health())
		require.Equal(t, health.Status == status.TerminatingStatus, s.terminating())
	}
}

// TestChecksOfOwners: a Snapshot has the result of the check of each owner, and a change of one enqueues.
func TestChecksOfOwners(t *testing.T) {
	check := func(current string) (*healthcheck.Checks, *healthcheck.Check) {
		checks := healthcheck.Compile([]v1alpha1.HealthCheck{{APIVersion: "example.com/v1", Kind: "Widget", Current: current}}, nil)
		return checks, checks.For(schema.GroupKind{Group: "example.com", Kind: "Widget"})
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.apply("blue", "100", nil)
		before := r.change(t, nil, reporting("blue", "101", "True", ""))
		checks, known := check("status.conditions[0].message == 'done'")
		_, ok := CheckedHealthOf(before, known)
		require.False(t, ok, "the event came before the check")
		r.index.CheckHealth(owner, checks)
		before = r.change(t, before, reporting("blue", "102", "True", ""))
		health, ok := CheckedHealthOf(before, known)
		require.True(t, ok)
		require.Equal(t, status.InProgressStatus, health.Status)
		require.Equal(t, owner.Name, r.nextAfter(t, statusDelay))
		r.TakeCauses(owner)
		before = r.change(t, before, reporting("blue", "103", "True", "done"))
		health, _ = CheckedHealthOf(before, known)
		require.Equal(t, Health{Status: status.CurrentStatus}, health)
		plain, _ := CheckedHealthOf(before, nil)
		require.Equal(t, status.CurrentStatus, plain.Status)
		require.Equal(t, owner.Name, r.nextAfter(t, statusDelay))

		var all []*healthcheck.Check
		for range maxChecks + 1 {
			_, one := check("true")
			all = append(all, one)
		}
		s := &Snapshot{special: newSpecial(Health{Status: status.CurrentStatus}, "", false, false, checkAll(reporting("blue", "104", "True", ""), all))}
		for i, one := range all {
			health, ok := CheckedHealthOf(s, one)
			require.True(t, ok)
			require.Equal(t, i < maxChecks, health.Status == status.CurrentStatus, "one more has no share of the time")
		}
	})
}
