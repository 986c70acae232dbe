package search

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/suite"
)

// eventPoint is an event of a watch in the last step of a scenario, and its fault.
type eventPoint struct {
	scenario string
	// event counts from 1.
	event int
	fault faultproxy.EventFault
}

func (p eventPoint) String() string {
	return fmt.Sprintf("%s, event %03d, %s", p.scenario, p.event,
		map[faultproxy.EventFault]string{faultproxy.Twice: "twice", faultproxy.Withhold: "unseen", faultproxy.Hold: "late"}[p.fault])
}

// TestUnseenEvents has, of the events that a scenario causes, one that the operator does not see, sees twice, or sees late. The end is as
// without the fault.
func TestUnseenEvents(t *testing.T) {
	unseenEvents(t, scenarios(t, "points"), 5*together)
}

// TestUnseenEventsOfShards does so while VidraResources move between the operators of two shards.
func TestUnseenEventsOfShards(t *testing.T) {
	divide(t, shards)
	unseenEvents(t, scenarios(t, "shards"), 2*together)
}

// unseenEvents has a fault in the events of scenarios; in some of them unless at full size.
func unseenEvents(t *testing.T, scenarios map[string]plan, some int) {
	t.Helper()
	begin := time.Now()
	var all []eventPoint
	for name, seen := range undisturbed(t, scenarios) {
		for event := range seen.events {
			for _, fault := range []faultproxy.EventFault{faultproxy.Twice, faultproxy.Withhold, faultproxy.Hold} {
				all = append(all, eventPoint{name, event + 1, fault})
			}
		}
	}
	points, e := choose(t, all, some), ends{t: t}
	left := reach(points, 2*together, func(batch []eventPoint) []eventPoint { return faultyEvents(&e, scenarios, batch) })
	e.wait()
	requireReached(t, len(all), points, left, begin)
}

// faultyEvents runs scenarios with one faulty event in each, and returns the points of the scenarios that ended without it.
func faultyEvents(e *ends, scenarios map[string]plan, points []eventPoint) (missed []eventPoint) {
	t := e.t
	t.Helper()
	type scene struct {
		eventPoint
		*run
		events atomic.Int64
	}
	ctx, scenes := t.Context(), make([]*scene, len(points))
	for i, p := range points {
		scenes[i] = &scene{eventPoint: p, run: newRun(ctx, t, t.Logf)}
	}
	beside(t, scenes, func(s *scene) { s.prepare(ctx, scenarios[s.scenario]) })
	onEvents(func(_ faultproxy.Request, event []byte) faultproxy.EventFault {
		for _, s := range scenes {
			if s.word.Match(event) && s.events.Add(1) == int64(s.event) {
				return s.fault
			}
		}
		return faultproxy.Pass
	})
	defer onEvents(nil)
	beside(t, scenes, func(s *scene) {
		defer s.explain(t, s.eventPoint)
		since := marks()
		s.step(ctx, scenarios[s.scenario].last())
		s.settle(ctx)
		s.requireFewRequests(since)
	})
	onEvents(nil)
	for _, s := range scenes {
		e.add(ctx, s.run, s.eventPoint)
		if s.events.Load() < int64(s.event) {
			missed = append(missed, s.eventPoint)
		}
	}
	return missed
}

// explain logs the point of a run in a batch that has failed.
func (r *run) explain(t *testing.T, point fmt.Stringer) {
	if t.Failed() {
		t.Logf("a run of this batch has failed: %s is %s", r.prefix, point)
	}
}

const (
	// dwell is how long the operator works on a stale view: longer than it waits for its cache before it reads a VidraResource.
	dwell = 1300 * time.Millisecond
	// manyPlans is how many plans run at the same time.
	manyPlans = 2 * together
)

// TestStaleViews has the operator start against an API server whose watches show a former state, with generated plans. Half of the
// plans have a change that happens while the operator is down, and that it does not see at first. In the other half the operator has carried
// out the change, and sees the state before it again. Then the view becomes current, and all is as without the fault; after that, the operator starts
// against the former state once more.
func TestStaleViews(t *testing.T) {
	begin, n, seed := time.Now(), planCount(t, 4*manyPlans, 1000), suite.Seed(t)
	generator, steps, e := rapid.Custom(plans), 0, ends{t: t}
	found := slices.Collect(maps.Values(scenarios(t, "stale"))) // by former runs
	staleViews(&e, found, true)
	staleViews(&e, found, false)
	for first := 0; first < n; first += manyPlans {
		var batch []plan
		for i := range min(manyPlans, n-first) {
			p := generator.Example(int((seed + uint64(first+i)) % (1 << 31)))
			for j := range p.Steps {
				p.Steps[j].Kill, p.Steps[j].Settle = false, true
			}
			p.Steps = p.Steps[:min(len(p.Steps), 4)]
			batch, steps = append(batch, p), steps+len(p.Steps)
		}
		staleViews(&e, batch, first/manyPlans%2 == 0)
		t.Logf("%d plans after %s", first+len(batch), time.Since(begin).Round(time.Second))
	}
	e.wait()
	t.Logf("%d plans, %d steps, in %s", n, steps, time.Since(begin).Round(time.Second))
}

// String returns the plan as YAML.
func (p plan) String() string {
	text, err := yaml.Marshal(p)
	if err != nil {
		panic(err) // a struct of texts and numbers
	}
	return string(text)
}

// staleViews runs plans at the same time. The last step of each happens while the operator is down, or before the operator sees the former state
// again.
func staleViews(e *ends, batch []plan, down bool) {
	t := e.t
	t.Helper()
	type scene struct {
		plan
		*run
	}
	ctx, scenes := t.Context(), make([]*scene, len(batch))
	for i, p := range batch {
		scenes[i] = &scene{plan: p, run: newRun(ctx, t, t.Logf)}
	}
	each := func(f func(*scene)) {
		beside(t, scenes, func(s *scene) {
			defer s.explain(t, s.plan)
			f(s)
		})
	}
	each(func(s *scene) { s.prepare(ctx, s.plan) })
	e.wait()
	var views [len(proxies)]faultproxy.View
	for i, proxy := range proxies {
		views[i] = proxy.View()
	}
	if down {
		require.NoError(t, killOperators())
		for _, s := range scenes {
			s.Steps[len(s.Steps)-1].Settle = false
		}
	}
	each(func(s *scene) { s.step(ctx, s.last()) })
	for range 2 {
		require.NoError(t, killOperators())
		each(func(s *scene) { s.lost(ctx) })
		for i, proxy := range proxies {
			proxy.Freeze(views[i])
		}
		require.NoError(t, startOperators(ctx))
		time.Sleep(dwell)
		for _, proxy := range proxies {
			proxy.Thaw()
		}
		each(func(s *scene) { s.settle(ctx) })
	}
	for _, s := range scenes {
		e.add(ctx, s.run, s.plan)
	}
}
