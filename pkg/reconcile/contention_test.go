package reconcile

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// fielded is a Recorder that keeps the Events.
type fielded struct{ all []events.Event }

func (f *fielded) Record(all []events.Event) { f.all = append(f.all, all...) }

// withReason returns the Events with a reason.
func (f *fielded) withReason(reason string) (found []events.Event) {
	for _, e := range f.all {
		if e.Reason == reason {
			found = append(found, e)
		}
	}
	return found
}

// TestContentionAboutAnObject: a writer that deletes an object again and again contends for
// no field, so no Event names one.
func TestContentionAboutAnObject(t *testing.T) {
	l := newLab(t, colors("a"))
	vr := l.get(t)
	vr.Spec.Drift = &v1alpha1.DriftPolicy{HealsPerMinute: 2}
	require.NoError(t, l.client.Update(t.Context(), vr))
	l.mustPass(t)
	told := &fielded{}
	l.Recorder = told
	for range 3 {
		l.mustPass(t, "a")
	}
	for _, e := range told.all {
		require.Empty(t, e.Fields, "%s: %s", e.Reason, e.Note)
	}
	contended := told.withReason(events.ReasonDriftContended)
	require.Len(t, contended, 1)
	require.Contains(t, contended[0].Note, "another writer keeps changing the object")
}

// TestContentionBegins reverts fields at given times.
func TestContentionBegins(t *testing.T) {
	t.Parallel()
	type revert struct {
		at     time.Duration
		fields []string
	}
	every := func(n int, interval time.Duration, fields ...string) (all []revert) {
		for i := range n {
			all = append(all, revert{at: time.Duration(i) * interval, fields: fields})
		}
		return all
	}
	many := func(n int, interval time.Duration) (all []revert) {
		for i := range n {
			all = append(all, revert{at: time.Duration(i) * interval, fields: []string{string(rune('a' + i))}})
		}
		return all
	}
	cases := map[string]struct {
		reason  string
		reverts []revert
		begins  int // index of the revert with which it does
		field   string
	}{
		"Limit":    {"As often as the limit says is no contention.", every(5, time.Second, "a"), -1, ""},
		"Beyond":   {"One more is.", every(7, time.Second, "a"), 5, "a"},
		"Second":   {"The field is named that was reverted too often, not the first one.", append(every(1, 0, "a"), every(7, time.Second, "a", "b")...), 5, "a"},
		"Object":   {"Deleting the object counts as well.", every(7, time.Second), 5, ""},
		"Slow":     {"The times before the last minute do not count.", every(50, 13*time.Second, "a"), -1, ""},
		"Fields":   {"Each field counts by itself.", many(50, time.Second), -1, ""},
		"AnyField": {"An object whose reverts are to be delayed is called contended in any case.", many(200, time.Millisecond), 99, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, start, begins := newContention(), time.Now(), -1
			for i, r := range tc.reverts {
				var fields []ownership.Change
				for _, path := range r.fields {
					fields = append(fields, ownership.Change{Path: path})
				}
				if c.healed(fields, 1, 5, start.Add(r.at)) {
					require.Equal(t, -1, begins, "it begins once")
					begins = i
				}
				require.LessOrEqual(t, len(c.reverts), 200)
			}
			require.Equal(t, tc.begins, begins, tc.reason)
			require.Equal(t, tc.begins >= 0, c.contended(), tc.reason)
			require.Equal(t, tc.field, c.field.Path, tc.reason)
		})
	}
}

// TestHealAt decides when a contended object is healed.
func TestHealAt(t *testing.T) {
	t.Parallel()
	now := time.Now()
	in := now.Add
	// drained returns a contention that began at a time and has a number of tokens.
	drained := func(began time.Time, tokens int) *contention {
		c := newContention()
		c.began = began
		c.next(now)
		for range healBurst - tokens {
			c.bucket.ReserveN(now, 1)
		}
		return c
	}
	cases := map[string]struct {
		reason      string
		c           *contention
		since       time.Duration
		maxExposure time.Duration
		budget      time.Duration
		want        time.Duration
	}{
		"Burst":      {"A token allows a heal at once.", drained(now, 1), 0, 10 * time.Second, 0, 0},
		"First":      {"In the first minute there are 10 tokens a second.", drained(now, 0), 0, 10 * time.Second, 0, 100 * time.Millisecond},
		"Lasting":    {"After it there is 1.", drained(in(-contentionWindow), 0), 0, 10 * time.Second, 0, time.Second},
		"Structural": {"A heal of two requests costs two tokens.", drained(in(-contentionWindow), -1), 0, 10 * time.Second, 0, 2 * time.Second},
		"Budget":     {"The budget of all contended objects may delay it.", drained(now, 1), 0, 10 * time.Second, 5 * time.Second, 5 * time.Second},
		"Exposure":   {"But not for longer than a foreign value may stand.", drained(now, 1), -7 * time.Second, 10 * time.Second, 5 * time.Second, 2 * time.Second},
		"Soon":       {"A heal that must be sent soon is sent now, with others that must be sent soon.", drained(now, 0), -8500 * time.Millisecond, 10 * time.Second, time.Hour, 0},
		"NotSoon":    {"Others wait, so that there are no more heals than necessary.", drained(in(-contentionWindow), -50), -8499 * time.Millisecond, 10 * time.Second, time.Hour, 501 * time.Millisecond},
		"Late":       {"What stood for so long is healed whatever the bucket and the budget say.", drained(now, -50), -9 * time.Second, 10 * time.Second, time.Hour, 0},
		"Short":      {"spec.drift.maxExposure goes before the bucket.", drained(in(-contentionWindow), -1), 0, time.Second, 0, 900 * time.Millisecond},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := tc.c.healAt(now, in(tc.since), tc.maxExposure, func(must bool) time.Time {
				if must {
					return now
				}
				return in(tc.budget)
			})
			require.InDelta(t, tc.want.Seconds(), at.Sub(now).Seconds(), 1e-6, tc.reason)
			require.False(t, at.Before(now))
		})
	}
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
		l.Recorder = told
		object := trigger.ObjectKey{GVR: configMaps, Namespace: "default", Name: "a"}
		heals, passes, statuses, held := 0, 0, 0, false
		var longest time.Duration
		for start := time.Now(); time.Since(start) < lasts; {
			since := time.Now()
			l.Trigger.RequeueCauses(faulty, trigger.Causes{Objects: map[trigger.ObjectKey]trigger.Cause{object: {Deleted: true, Since: since}}})
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
			allowed := healBurst + 10*min(elapsed, 60) + max(0, elapsed-60)
			require.LessOrEqual(t, float64(heals), allowed+1, "after %.3f s", elapsed)
			time.Sleep(took)
		}
		require.GreaterOrEqual(t, heals, 100+600+540-5, "no token is wasted")
		require.LessOrEqual(t, longest, time.Second+time.Millisecond)
		require.True(t, held)
		require.LessOrEqual(t, passes, 2*heals+int(lasts/healFlush), "a held heal is scheduled for the time at which it is due")
		require.LessOrEqual(t, statuses, 5+int(lasts/(healFlush+delayedFlush)), "the status gathers heals")
		require.Len(t, told.withReason(events.ReasonDriftContended), 1)
		require.Len(t, told.withReason(events.ReasonDriftCorrected), heals, "each heal is told; the recorder makes a series of them")
		require.Empty(t, told.withReason(events.ReasonDriftSettled))
		require.Equal(t, v1alpha1.ObjectContended, l.get(t).Status.ManagedResources[0].State)

		// After a restart the object is still contended, and no Event tells so again.
		l.restart()
		l.Recorder = told
		l.mustPass(t)
		l.mustPass(t, "a")
		require.Equal(t, v1alpha1.ObjectContended, l.get(t).Status.ManagedResources[0].State)
		require.Len(t, told.withReason(events.ReasonDriftContended), 1)

		// A quiet minute ends it, and gives the burst back.
		result, err := l.Reconcile(t.Context(), reconcile.Request{NamespacedName: faulty})
		require.NoError(t, err)
		time.Sleep(contentionWindow - time.Second)
		l.mustPass(t)
		require.Empty(t, told.withReason(events.ReasonDriftSettled), "not before")
		require.LessOrEqual(t, result.RequeueAfter, contentionWindow+time.Second)
		time.Sleep(2 * time.Second)
		l.mustPass(t)
		require.Len(t, told.withReason(events.ReasonDriftSettled), 1)
		require.Equal(t, v1alpha1.ObjectApplied, l.get(t).Status.ManagedResources[0].State)
		for range healBurst {
			require.Contains(t, l.mustPass(t, "a"), "a")
		}
	})
}

// TestStructuralHealsCostTwo: an edit that is undone with two requests takes two tokens, so
// half as many of them are undone without a delay.
func TestStructuralHealsCostTwo(t *testing.T) {
	t.Parallel()
	now := time.Now()
	value, structural := &result{}, &result{task: task{added: ownership.Addition{Changes: []ownership.Change{{Path: "spec.volumes[0].hostPath"}}}}}
	for name, tc := range map[string]struct {
		heal  *result
		heals int
	}{"Value": {value, healBurst}, "Structural": {structural, healBurst / 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newContention()
			for range tc.heals {
				require.Equal(t, now, c.next(now))
				c.healed(nil, tc.heal.requests(), 5, now)
			}
			require.True(t, c.next(now).After(now))
		})
	}
}

// TestHeldHealDelaysNoOther: while the heal of one object is held, another one that
// changed is healed at once, and a changed manifest is applied.
func TestHeldHealDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, colors("a", "b"))
		l.Metrics = NewMetrics()
		l.mustPass(t)
		edit := func(names ...string) []string {
			causes := trigger.Causes{Objects: map[trigger.ObjectKey]trigger.Cause{}}
			for _, name := range names {
				causes.Objects[trigger.ObjectKey{GVR: configMaps, Namespace: "default", Name: name}] = trigger.Cause{Deleted: true, Since: time.Now()}
			}
			l.Trigger.RequeueCauses(faulty, causes)
			return l.mustPass(t)
		}
		for range healBurst {
			require.Contains(t, edit("a"), "a")
		}
		require.True(t, l.ready(t), "each change was reverted at once")
		require.NotContains(t, l.mustPass(t, "a"), "a", "its bucket is empty, also for a change that no event told of")
		done := edit("a", "b")
		require.NotContains(t, done, "a")
		require.Contains(t, done, "b")
		require.False(t, l.ready(t))
		require.InDelta(t, 1, testutil.ToFloat64(l.Metrics.heldHeals.WithLabelValues("", "ConfigMap")), 0, "one heal was delayed")
		drifted := meta.FindStatusCondition(l.get(t).Status.Conditions, v1alpha1.ConditionDrifted)
		require.Equal(t, v1alpha1.ReasonDriftContended, drifted.Reason)
		vr := l.get(t)
		vr.Spec.Drift.Mode, vr.Generation = v1alpha1.DriftIgnore, vr.Generation+1
		require.NoError(t, l.client.Update(t.Context(), vr))
		l.mustPass(t)
		require.False(t, l.states[faulty].manifest[0].contention.notBefore.After(time.Now()), "what is not healed is not held")
	})
}

// TestHealBudget has VidraResources with contended objects that are overwritten whenever
// they are healed, and counts the heals of each in half a minute, once it has settled, and
// the reconciles.
func TestHealBudget(t *testing.T) {
	type writer struct {
		name    string
		objects int
	}
	many := make([]writer, 500)
	for i := range many {
		many[i] = writer{name: string(rune('a' + i)), objects: 1}
	}
	cases := map[string]struct {
		reason  string
		writers []writer
		heals   map[string]int // at least, in 30 s
		total   int            // at most, in 30 s
		passes  int            // at most, in 30 s
		longest time.Duration
	}{
		"One":        {"A single contended object does not notice the budget.", []writer{{"a", 1}}, map[string]int{"a": 29}, 31, 62, time.Second},
		"Many":       {"500 objects are healed once in maxExposure.", []writer{{"a", 500}}, map[string]int{"a": 1500}, 1850, 120, 9 * time.Second},
		"Unfair":     {"One with 500 objects does not delay another one.", []writer{{"a", 500}, {"b", 1}}, map[string]int{"a": 1450, "b": 29}, 1800, 180, 9 * time.Second},
		"Owners":     {"500 VidraResources cost no more than one with 500 objects.", many, nil, 1850, 3700, 9 * time.Second},
		"Overloaded": {"With too many for the budget, each is healed once in maxExposure nevertheless.", []writer{{"a", 1000}}, map[string]int{"a": 3000}, 4000, 120, 9 * time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const settled, tick = 20 * time.Second, 100 * time.Millisecond
			start := time.Now()
			var budget healBudget
			type object struct {
				contention
				since time.Time
			}
			objects := map[string][]*object{}
			for _, w := range tc.writers {
				for range w.objects {
					objects[w.name] = append(objects[w.name], &object{contention: *restoredContention(start), since: start})
				}
			}
			heals, total, passes, longest := map[string]int{}, 0, 0, time.Duration(0)
			for now := start; now.Sub(start) < settled+30*time.Second; now = now.Add(tick) {
				for _, w := range tc.writers {
					owner := trigger.Owner{Name: w.name}
					slices.SortFunc(objects[w.name], func(a, b *object) int { return a.since.Compare(b.since) })
					if !slices.ContainsFunc(objects[w.name], func(o *object) bool { return !now.Before(o.notBefore) }) {
						continue
					}
					if now.Sub(start) > settled {
						passes++
					}
					for _, o := range objects[w.name] {
						at := o.healAt(now, o.since, 10*time.Second, func(must bool) time.Time { return budget.take(owner, now, must) })
						if o.notBefore = at; at.After(now) {
							continue
						}
						o.healed(nil, 1, 5, now)
						if now.Sub(start) > settled {
							heals[w.name]++
							total++
							longest = max(longest, now.Sub(o.since))
						}
						o.since = now // it is overwritten at once
						o.notBefore = o.healAt(now, now, 10*time.Second, func(bool) time.Time { return budget.next(owner, now) })
					}
				}
			}
			for name, least := range tc.heals {
				require.GreaterOrEqual(t, heals[name], least, "%s: %s", name, tc.reason)
			}
			require.LessOrEqual(t, total, tc.total, tc.reason)
			require.LessOrEqual(t, passes, tc.passes, tc.reason)
			require.LessOrEqual(t, longest, tc.longest+2*tick, tc.reason)
		})
	}
}

// TestContentionTellsHowToEndIt names the writer, the field, and the rule that leaves the
// field to it.
func TestContentionTellsHowToEndIt(t *testing.T) {
	t.Parallel()
	id := identity{GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, namespace: "shop", name: "web"}
	c := &contention{field: ownership.Change{Path: "spec.replicas", Manager: "hpa"}, reverted: 5}
	require.Equal(t, `"hpa" keeps changing spec.replicas: Vidra reverted it more than 5 times within a minute. `+stillReverted+
		`. Stop that writer, or leave the field to it: add to spec.drift.ignore {"target":{"group":"apps","kind":"Deployment","name":"web","namespace":"shop"},"managers":["hpa"]}`,
		c.describe(id))
	c.field = ownership.Change{Path: "spec.replicas", Pointer: "/spec/replicas"}
	require.Contains(t, c.describe(id), `"paths":["/spec/replicas"]`, "a writer that removes a field may be unknown")
	c.field = ownership.Change{}
	require.Equal(t, "another writer keeps changing the object: Vidra reverted it more than 5 times within a minute. "+stillReverted, c.describe(id))
}
