package search

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

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
	begin, scenarios := time.Now(), scenarios(t)
	var all []eventPoint
	for name, seen := range undisturbed(t, scenarios) {
		for event := range seen.events {
			for _, fault := range []faultproxy.EventFault{faultproxy.Twice, faultproxy.Withhold, faultproxy.Hold} {
				all = append(all, eventPoint{name, event + 1, fault})
			}
		}
	}
	points, hit := choose(t, all), 0
	for batch := range slices.Chunk(points, together) {
		hit += faultyEvents(t, scenarios, batch)
	}
	requireReached(t, len(all), len(points), hit, begin)
}

// faultyEvents runs scenarios with one faulty event in each, and returns how many had it.
func faultyEvents(t *testing.T, scenarios map[string]plan, points []eventPoint) int {
	t.Helper()
	type scene struct {
		eventPoint
		*run
		events atomic.Int64
	}
	var hit atomic.Int64
	ctx, scenes := t.Context(), make([]*scene, len(points))
	for i, p := range points {
		scenes[i] = &scene{eventPoint: p, run: beginBeside(ctx, t)}
	}
	beside(t, scenes, func(s *scene) { s.prepare(ctx, scenarios[s.scenario]) })
	onEvents(func(_ faultproxy.Request, event []byte) faultproxy.EventFault {
		for _, s := range scenes {
			if s.word.Match(event) && s.events.Add(1) == int64(s.event) {
				hit.Add(1)
				return s.fault
			}
		}
		return faultproxy.Pass
	})
	defer onEvents(nil)
	beside(t, scenes, func(s *scene) {
		defer s.explain(t, s.eventPoint)
		s.step(ctx, scenarios[s.scenario].last())
		s.settle(ctx)
	})
	onEvents(nil)
	beside(t, scenes, func(s *scene) { s.end(ctx) })
	return int(hit.Load())
}

// explain logs the point of a run in a batch that has failed.
func (r *run) explain(t *testing.T, point fmt.Stringer) {
	if t.Failed() {
		t.Logf("a run of this batch has failed: %s is %s", r.prefix, point)
	}
}

// dwell is how long the operator works on a stale view.
const dwell = time.Second

// TestStaleViews has the operator start against an API server whose watches show a former state, with generated plans. Half of the
// plans have a change that happens while the operator is down, and that it does not see at first. In the other half the operator has carried
// out the change, and sees the state before it again. Then the view becomes current, and all is as without the fault; after that, the operator starts
// against the former state once more.
func TestStaleViews(t *testing.T) {
	begin, n, seed := time.Now(), suite.Size(8*together, 1000), suite.Seed(t)
	generator, steps := rapid.Custom(plans), 0
	for first := 0; first < n; first += together {
		var batch []plan
		for i := range min(together, n-first) {
			p := generator.Example(int((seed + uint64(first+i)) % (1 << 31)))
			for j := range p.Steps {
				p.Steps[j].Kill, p.Steps[j].Settle = false, true
			}
			p.Steps = p.Steps[:min(len(p.Steps), 4)]
			batch, steps = append(batch, p), steps+len(p.Steps)
		}
		staleViews(t, batch, first/together%2 == 0)
	}
	t.Logf("%d plans, %d steps, in %s", n, steps, time.Since(begin).Round(time.Second))
}

// staleViews runs plans at the same time. The last step of each happens while the operator is down, or before the operator sees the former state
// again.
func staleViews(t *testing.T, batch []plan, down bool) {
	t.Helper()
	type scene struct {
		plan
		*run
	}
	ctx, scenes := t.Context(), make([]*scene, len(batch))
	for i, p := range batch {
		scenes[i] = &scene{plan: p, run: beginBeside(ctx, t)}
	}
	failed := func(s *scene) {
		if t.Failed() {
			t.Logf("a run of this batch has failed (down: %t): %s is\n%s", down, s.prefix, yamlOf(t, s.plan))
		}
	}
	beside(t, scenes, func(s *scene) {
		defer failed(s)
		s.prepare(ctx, s.plan)
	})
	var views [len(proxies)]faultproxy.View
	for i, proxy := range proxies {
		views[i] = proxy.View()
	}
	last := func() {
		beside(t, scenes, func(s *scene) {
			defer failed(s)
			s.step(ctx, s.last())
		})
	}
	if down {
		require.NoError(t, operator.Kill())
		for _, s := range scenes {
			s.Steps[len(s.Steps)-1].Settle = false
		}
		last()
	} else {
		last()
		require.NoError(t, operator.Kill())
	}
	for range 2 {
		for i, proxy := range proxies {
			proxy.Freeze(views[i])
		}
		require.NoError(t, startOperator(ctx))
		time.Sleep(dwell)
		for _, proxy := range proxies {
			proxy.Thaw()
		}
		beside(t, scenes, func(s *scene) {
			defer failed(s)
			s.settle(ctx)
		})
		require.NoError(t, operator.Kill())
	}
	require.NoError(t, startOperator(ctx))
	beside(t, scenes, func(s *scene) {
		defer failed(s)
		s.end(ctx)
	})
}
