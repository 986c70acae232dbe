package contention

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

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
			c, start, begins := New(), time.Now(), -1
			for i, r := range tc.reverts {
				var fields []ownership.Change
				for _, path := range r.fields {
					fields = append(fields, ownership.Change{Path: path})
				}
				if c.Healed(fields, 1, 5, start.Add(r.at)) {
					require.Equal(t, -1, begins, "it begins once")
					begins = i
				}
				require.LessOrEqual(t, len(c.reverts), 200)
			}
			require.Equal(t, tc.begins, begins, tc.reason)
			require.Equal(t, tc.begins >= 0, c.Contended(), tc.reason)
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
	drained := func(began time.Time, tokens int) *Tracker {
		c := New()
		c.Began = began
		c.Next(now)
		for range HealBurst - tokens {
			c.bucket.ReserveN(now, 1)
		}
		return c
	}
	cases := map[string]struct {
		reason      string
		c           *Tracker
		since       time.Duration
		maxExposure time.Duration
		budget      time.Duration
		want        time.Duration
	}{
		"Burst":      {"A token allows a heal at once.", drained(now, 1), 0, 10 * time.Second, 0, 0},
		"First":      {"In the first minute there are 10 tokens a second.", drained(now, 0), 0, 10 * time.Second, 0, 100 * time.Millisecond},
		"Lasting":    {"After it there is 1.", drained(in(-Window), 0), 0, 10 * time.Second, 0, time.Second},
		"Structural": {"A heal of two requests costs two tokens.", drained(in(-Window), -1), 0, 10 * time.Second, 0, 2 * time.Second},
		"Budget":     {"The budget of all contended objects may delay it.", drained(now, 1), 0, 10 * time.Second, 5 * time.Second, 5 * time.Second},
		"Exposure":   {"But not for longer than a foreign value may stand.", drained(now, 1), -7 * time.Second, 10 * time.Second, 5 * time.Second, 2 * time.Second},
		"Soon":       {"A heal that must be sent soon is sent now, with others that must be sent soon.", drained(now, 0), -8500 * time.Millisecond, 10 * time.Second, time.Hour, 0},
		"NotSoon":    {"Others wait, so that there are no more heals than necessary.", drained(in(-Window), -50), -8499 * time.Millisecond, 10 * time.Second, time.Hour, 501 * time.Millisecond},
		"Late":       {"What stood for so long is healed whatever the bucket and the budget say.", drained(now, -50), -9 * time.Second, 10 * time.Second, time.Hour, 0},
		"Short":      {"spec.drift.maxExposure goes before the bucket.", drained(in(-Window), -1), 0, time.Second, 0, 900 * time.Millisecond},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := tc.c.HealAt(now, in(tc.since), tc.maxExposure, func(must bool) time.Time {
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
			var budget Budget
			type object struct {
				tracker Tracker
				since   time.Time
			}
			objects := map[string][]*object{}
			for _, w := range tc.writers {
				for range w.objects {
					objects[w.name] = append(objects[w.name], &object{tracker: *Restored(start), since: start})
				}
			}
			heals, total, passes, longest := map[string]int{}, 0, 0, time.Duration(0)
			for now := start; now.Sub(start) < settled+30*time.Second; now = now.Add(tick) {
				for _, w := range tc.writers {
					owner := trigger.Owner{Name: w.name}
					slices.SortFunc(objects[w.name], func(a, b *object) int { return a.since.Compare(b.since) })
					if !slices.ContainsFunc(objects[w.name], func(o *object) bool { return !now.Before(o.tracker.NotBefore) }) {
						continue
					}
					if now.Sub(start) > settled {
						passes++
					}
					for _, o := range objects[w.name] {
						at := o.tracker.HealAt(now, o.since, 10*time.Second, func(must bool) time.Time { return budget.Take(owner, now, must) })
						if o.tracker.NotBefore = at; at.After(now) {
							continue
						}
						o.tracker.Healed(nil, 1, 5, now)
						if now.Sub(start) > settled {
							heals[w.name]++
							total++
							longest = max(longest, now.Sub(o.since))
						}
						o.since = now // it is overwritten at once
						o.tracker.NotBefore = o.tracker.HealAt(now, now, 10*time.Second, func(bool) time.Time { return budget.Next(owner, now) })
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
	id := v1alpha1.IgnoreTarget{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
	c := &Tracker{field: ownership.Change{Path: "spec.replicas", Manager: "hpa"}, Reverted: 5}
	require.Equal(t, `"hpa" keeps changing spec.replicas: Vidra reverted it more than 5 times within a minute. `+stillReverted+
		`. Stop that writer, or leave the field to others: add to spec.drift.ignore {"target":{"group":"apps","kind":"Deployment","name":"web","namespace":"shop"},"managers":["hpa"]}`+
		", which leaves all fields of that field manager; `vidra why` prints the rule for this field alone",
		c.Describe(id))
	c.field = ownership.Change{Path: "spec.replicas", Pointer: "/spec/replicas"}
	require.Contains(t, c.Describe(id), `"paths":["/spec/replicas"]`, "a writer that removes a field may be unknown")
	c.field = ownership.Change{}
	require.Equal(t, "another writer keeps changing the object: Vidra reverted it more than 5 times within a minute. "+stillReverted, c.Describe(id))
}
