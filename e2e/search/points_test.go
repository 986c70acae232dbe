package search

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/suite"
)

const (
	// together is how many scenarios share a kill of the operator. The writes of all of them are held until it: more of them would hold all
	// workers of the operator.
	together = 6
	// rest is how long the operator writes nothing at the end of a scenario without faults.
	rest = 400 * time.Millisecond
	// reached bounds the wait for a write. A scenario may have fewer writes than the run without faults.
	reached = 4 * time.Second
)

// point is a write of a scenario at which the operator is killed.
type point struct {
	scenario string
	// at is the index of the proxy through which the write goes. write counts from 1.
	at, write int
	// committed is whether the API server has done what the write asks.
	committed bool
}

func (p point) String() string {
	return fmt.Sprintf("%s%s, write %d, %s", p.scenario, []string{"", " (destination)"}[p.at], p.write, map[bool]string{true: "committed", false: "not sent"}[p.committed])
}

// TestCrashPoints kills the operator at each write of each scenario, before the API server gets the write and after it has committed it,
// and starts it again. Then everything is as after a run without a kill: the oracles of TestTransitions hold.
func TestCrashPoints(t *testing.T) {
	begin, scenarios := time.Now(), scenarios(t)
	var all []point
	for name, seen := range undisturbed(t, scenarios) {
		for at, writes := range seen.writes {
			for write := range writes {
				all = append(all, point{name, at, write + 1, false}, point{name, at, write + 1, true})
			}
		}
	}
	points, hit := choose(t, all), 0
	for batch := range slices.Chunk(points, together) {
		hit += killAt(t, scenarios, batch)
	}
	requireReached(t, len(all), len(points), hit, begin)
}

// requireReached requires that most of the chosen points were reached, unless VIDRA_POINTS has chosen them.
func requireReached(t *testing.T, all, chosen, reached int, begin time.Time) {
	t.Helper()
	t.Logf("%d points; %d of %d were reached, in %s", all, reached, chosen, time.Since(begin).Round(time.Second))
	if os.Getenv("VIDRA_POINTS") == "" {
		require.Greater(t, reached, chosen/2, "most points are reached")
	}
}

// scenarios reads the scenarios.
func scenarios(t *testing.T) map[string]plan {
	t.Helper()
	all := map[string]plan{}
	files, err := filepath.Glob("testdata/points/*.yaml")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		p := plan{}
		require.NoError(t, yaml.UnmarshalStrict(text, &p), file)
		all[strings.TrimSuffix(filepath.Base(file), ".yaml")] = p
	}
	return all
}

// choose returns all points at full size, and always the same choice of them otherwise. VIDRA_POINTS, a regular expression, chooses by their names.
func choose[T interface {
	comparable
	fmt.Stringer
}](t *testing.T, all []T) []T {
	t.Helper()
	slices.SortFunc(all, func(a, b T) int { return strings.Compare(a.String(), b.String()) })
	if given := os.Getenv("VIDRA_POINTS"); given != "" {
		chosen := regexp.MustCompile(given)
		return slices.DeleteFunc(all, func(p T) bool { return !chosen.MatchString(p.String()) })
	}
	rng := rand.New(rand.NewPCG(suite.Seed(t), 0)) //nolint:gosec // a seed that repeats the choice
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(len(all), suite.Size(5*together, len(all)))]
}

// beside calls f for each run at the same time, and ends the test when one has failed.
func beside[T any](t *testing.T, all []T, f func(T)) {
	t.Helper()
	var group sync.WaitGroup
	for _, one := range all {
		group.Go(func() { f(one) })
	}
	group.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// writesOf selects the writes of the operator in a run, without Events.
func (r *run) writesOf() faultproxy.Match {
	return faultproxy.Match{Where: func(q faultproxy.Request) bool {
		switch q.Verb {
		case "create", "update", "patch", "delete":
			return q.Resource != "events" && !q.Query.Has("dryRun") && (r.word.MatchString(q.Namespace) || r.word.MatchString(q.Name))
		}
		return false
	}}
}

// beginBeside returns a run beside others.
func beginBeside(ctx context.Context, t *testing.T) *run {
	r := newRun(ctx, t, t.Logf)
	r.beside = true
	return r
}

// prepare does all steps of a plan but the last one.
func (r *run) prepare(ctx context.Context, p plan) {
	for _, s := range p.Steps[:len(p.Steps)-1] {
		r.step(ctx, s)
	}
}

func (p plan) last() step { return p.Steps[len(p.Steps)-1] }

// seen is what the last step of a scenario does without a fault.
type seen struct {
	// writes are those through each proxy.
	writes [len(proxies)]int
	events int
}

// onEvents has decide decide about the events that reach the operator.
func onEvents(decide func(faultproxy.Request, []byte) faultproxy.EventFault) {
	for _, proxy := range proxies {
		proxy.OnEvents(decide)
	}
}

// undisturbed runs the scenarios without a fault, and counts the writes of the operator and the events of its watches in their last steps.
func undisturbed(t *testing.T, scenarios map[string]plan) map[string]seen {
	t.Helper()
	ctx, mu, counts := t.Context(), sync.Mutex{}, map[string]seen{}
	for batch := range slices.Chunk(slices.Sorted(maps.Keys(scenarios)), together) {
		runs, events := make([]*run, len(batch)), make([]atomic.Int64, len(batch))
		indexes := make([]int, len(batch))
		for i := range batch {
			indexes[i] = i
		}
		beside(t, indexes, func(i int) {
			runs[i] = beginBeside(ctx, t)
			runs[i].prepare(ctx, scenarios[batch[i]])
		})
		onEvents(func(_ faultproxy.Request, event []byte) faultproxy.EventFault {
			for i, r := range runs {
				if r.word.Match(event) {
					events[i].Add(1)
				}
			}
			return faultproxy.Pass
		})
		defer onEvents(nil)
		beside(t, indexes, func(i int) {
			r, writes, marks := runs[i], [len(proxies)]int{}, [len(proxies)]faultproxy.Mark{}
			for at, proxy := range proxies {
				marks[at] = proxy.Mark()
			}
			r.step(ctx, scenarios[batch[i]].last())
			r.settle(ctx)
			for {
				before := writes
				for at, proxy := range proxies {
					writes[at] = len(proxy.Requests(marks[at], r.writesOf()))
				}
				if writes == before {
					break
				}
				time.Sleep(rest)
			}
			mu.Lock()
			counts[batch[i]] = seen{writes, int(events[i].Load())}
			mu.Unlock()
			r.end(ctx)
		})
		onEvents(nil)
	}
	for name, n := range counts {
		require.Positive(t, n.writes[0], "%s has writes", name)
	}
	return counts
}

// killAt runs scenarios until each has reached its point, kills the operator, starts it again, and checks what comes of them. It returns
// how many have reached their points.
func killAt(t *testing.T, scenarios map[string]plan, points []point) (hit int) {
	t.Helper()
	type scene struct {
		point
		*run
		rule *faultproxy.Rule
	}
	ctx, scenes := t.Context(), make([]*scene, len(points))
	for i, p := range points {
		scenes[i] = &scene{point: p, run: beginBeside(ctx, t)}
	}
	beside(t, scenes, func(s *scene) { s.prepare(ctx, scenarios[s.scenario]) })
	for _, s := range scenes {
		fault := faultproxy.Stall()
		if s.committed {
			fault = faultproxy.Late()
		}
		s.rule = proxies[s.at].Inject(s.writesOf(), fault.Nth(s.point.write))
		defer s.rule.Remove()
	}
	beside(t, scenes, func(s *scene) {
		s.step(ctx, scenarios[s.scenario].last())
		err := wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, reached, true, func(context.Context) (bool, error) { return s.rule.Holding() > 0, nil })
		require.True(s, err == nil || errors.Is(err, context.DeadlineExceeded), "%v", err)
	})
	for _, s := range scenes {
		hit += s.rule.Hits()
	}
	require.NoError(t, operator.Kill())
	for _, s := range scenes {
		require.Eventually(t, func() bool { return s.rule.Holding() == 0 }, patience, time.Millisecond, "the connections of the operator end")
		s.rule.Remove()
	}
	require.NoError(t, startOperator(ctx))
	beside(t, scenes, func(s *scene) {
		defer s.explain(t, s.point)
		s.settle(ctx)
		s.end(ctx)
	})
	return hit
}
