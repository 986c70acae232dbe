package search

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/suite"
)

const (
	// together is how many scenarios share a kill of the operator. The writes of all of them are held until it: more of them would hold all
	// workers of the operator.
	together = 6
	// rest is how long the operator writes nothing at the end of a scenario.
	rest = 400 * time.Millisecond
	// attempts is how often a scenario may end without the write or the event that its point names: statuses have the news of more or of less
	// time.
	attempts = 4
)

// point is a write of a scenario at which operators are killed.
type point struct {
	scenario string
	operation
	// fault is the fault: a kill, or an answer.
	fault string
}

// The kills of operators: before the API server gets the write, and after it has committed it.
const (
	notSent   = "not sent"
	committed = "committed"
)

// answers are the faults of answers to writes. The operator goes on.
var answers = map[string]faultproxy.Fault{
	"answer lost": faultproxy.CutAfter(0),
	"unavailable": faultproxy.Text(http.StatusServiceUnavailable, "no healthy upstream"),
	"timeout":     faultproxy.Status(apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)),
	"conflict":    faultproxy.Status(apierrors.NewConflict(schema.GroupResource{Resource: "objects"}, "name", errors.New("the object has been modified"))),
}

// operation is a write of an operator.
type operation struct {
	// at is the index of the proxy through which the write goes.
	at int
	// request has the verb, the resource, and the name of the object without the prefix of the run.
	request string
	// nth counts the equal ones from 1.
	nth int
}

func (p point) String() string {
	return fmt.Sprintf("%s, %s %d%s, %s", p.scenario, p.request, p.nth, map[int]string{destinationProxy: " at the destination", secondProxy: " of the second operator"}[p.at], p.fault)
}

// TestCrashPoints kills the operator at each write of each scenario, before the API server gets the write and after it has committed it,
// and starts it again. Then everything is as after a run without a kill: the oracles of TestTransitions hold.
func TestCrashPoints(t *testing.T) {
	writePoints(t, scenarios(t, "points"), 5*together, together, killAt, notSent, committed)
}

// TestCrashPointsOfSyncs does so while an InfrahubSync writes VidraResources, or publishes their manifests.
func TestCrashPointsOfSyncs(t *testing.T) {
	writePoints(t, scenarios(t, "syncs"), together, together, killAt, notSent, committed)
}

// TestFaultyAnswers has, of the answers to the writes of each scenario, one that is a fault. The end is as without it.
func TestFaultyAnswers(t *testing.T) {
	all := scenarios(t, "points")
	maps.Copy(all, scenarios(t, "syncs"))
	writePoints(t, all, 2*together, 2*together, faultyAnswers, slices.Collect(maps.Keys(answers))...)
}

// TestCrashPointsOfShards does so while VidraResources move between the operators of two shards. The operator of the write is killed.
func TestCrashPointsOfShards(t *testing.T) {
	divide(t, shards)
	writePoints(t, scenarios(t, "shards"), 2*together, together, killAt, notSent, committed)
}

// TestCrashPointsOfInstallations does so while VidraResources move between two installations.
func TestCrashPointsOfInstallations(t *testing.T) {
	divide(t, installations)
	writePoints(t, ofInstallations(t), together, together, killAt, notSent, committed)
}

// TestFaultyAnswersOfInstallations has a faulty answer meanwhile.
func TestFaultyAnswersOfInstallations(t *testing.T) {
	divide(t, installations)
	writePoints(t, ofInstallations(t), together, 2*together, faultyAnswers, slices.Collect(maps.Keys(answers))...)
}

// ofInstallations returns the scenarios of shards with installations in place of them. Between the release of an object and its adoption, nothing reverts the
// edits of users, and a deletion of the VidraResource leaves the object in place.
func ofInstallations(t *testing.T) map[string]plan {
	t.Helper()
	all := map[string]plan{}
	for name, p := range scenarios(t, "shards") {
		if len(p.last().Edit) == 0 && name != "delete-in-shard" {
			all["installations, "+name] = p
		}
	}
	return all
}

// writePoints has try try each of the faults, n at a time, at the writes of scenarios; at some of them unless at full size.
func writePoints(t *testing.T, scenarios map[string]plan, some, n int, try func(*ends, map[string]plan, []point) []point, faults ...string) {
	t.Helper()
	begin := time.Now()
	var all []point
	for name, seen := range undisturbed(t, scenarios) {
		for _, w := range seen.writes {
			for _, fault := range faults {
				all = append(all, point{name, w, fault})
			}
		}
	}
	points, e := choose(t, all, some), ends{t: t}
	logScenarios(t, all)
	left := reach(points, n, func(batch []point) []point { return try(&e, scenarios, batch) })
	e.wait()
	requireReached(t, len(all), points, left, begin)
}

// reach calls try with up to n points at a time, and again with the points that it returns as missed. It returns the ones that are left.
func reach[T any](points []T, n int, try func(batch []T) (missed []T)) (left []T) {
	left = points
	for range attempts {
		var missed []T
		for batch := range slices.Chunk(left, n) {
			missed = append(missed, try(batch)...)
		}
		left = missed
	}
	return left
}

// logScenarios logs how many points each scenario has, for docs/failures.md.
func logScenarios(t *testing.T, all []point) {
	t.Helper()
	counts, text := map[string]int{}, ""
	for _, p := range all {
		counts[p.scenario]++
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		text += fmt.Sprintf("\n%s %d", name, counts[name])
	}
	t.Logf("points of the scenarios:%s", text)
}

// requireReached requires that most of the chosen points were reached, unless VIDRA_POINTS has chosen them.
func requireReached[T any](t *testing.T, all int, chosen, left []T, begin time.Time) {
	t.Helper()
	reached := len(chosen) - len(left)
	t.Logf("%d points; %d of %d were reached, in %s; at most %d requests after a fault; the others are %v", all, reached, len(chosen), time.Since(begin).Round(time.Second), requested.Load(), left)
	if os.Getenv("VIDRA_POINTS") == "" {
		require.GreaterOrEqual(t, reached, len(chosen)*9/10, "most points are reached")
	}
}

// scenarios reads the scenarios of a folder.
func scenarios(t *testing.T, folder string) map[string]plan {
	t.Helper()
	all := map[string]plan{}
	files, err := filepath.Glob("testdata/" + folder + "/*.yaml")
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

// choose returns all points at full size, and always the same choice of some of them otherwise. VIDRA_POINTS, a regular expression, chooses by their names.
func choose[T interface {
	comparable
	fmt.Stringer
}](t *testing.T, all []T, some int) []T {
	t.Helper()
	slices.SortFunc(all, func(a, b T) int { return strings.Compare(a.String(), b.String()) })
	given := os.Getenv("VIDRA_POINTS")
	if given != "" {
		chosen := regexp.MustCompile(given)
		all = slices.DeleteFunc(all, func(p T) bool { return !chosen.MatchString(p.String()) })
	}
	// A watch that expires several times in a row is delayed by up to a minute: the points of one scenario are spread.
	rng := rand.New(rand.NewPCG(suite.Seed(t), 0)) //nolint:gosec // a seed that repeats the choice
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if given != "" {
		return all
	}
	return all[:min(len(all), suite.Size(some, len(all)))]
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

// ends ends runs while other ones begin.
type ends struct {
	t     *testing.T
	group sync.WaitGroup
}

// add ends a run. Its point is logged if that fails.
func (e *ends) add(ctx context.Context, r *run, point fmt.Stringer) {
	e.group.Go(func() {
		defer r.explain(e.t, point)
		r.end(ctx)
	})
}

// wait waits for the runs, and ends the test if one has failed.
func (e *ends) wait() {
	e.group.Wait()
	if e.t.Failed() {
		e.t.FailNow()
	}
}

// writeOf returns the write of a request in a run, and whether it is one: Events are not.
func (r *run) writeOf(at int, q faultproxy.Request) (operation, bool) {
	switch q.Verb {
	case "create", "update", "patch", "delete":
		resource := strings.Trim(q.Resource+"/"+q.Subresource, "/")
		is := q.Resource != "events" && !q.Query.Has("dryRun") && r.named(q.Namespace, q.Name)
		return operation{at: at, request: q.Verb + " " + resource + " " + r.short(q.Name)}, is
	}
	return operation{}, false
}

// writes returns the writes of a run since marks at the proxies.
func (r *run) writes(marks [len(proxies)]faultproxy.Mark) (all []operation) {
	counts := map[operation]int{}
	for at, proxy := range proxies {
		for _, q := range proxy.Requests(marks[at], faultproxy.Match{}) {
			if w, is := r.writeOf(at, q); is {
				counts[w]++
				w.nth = counts[w]
				all = append(all, w)
			}
		}
	}
	return all
}

// mostRequests bounds the requests of operators about a scenario, with up to six objects and two VidraResources, after the fault.
const mostRequests = 150

// requireFewRequests requires that operators have sent at most mostRequests about a run since marks at the proxies.
func (r *run) requireFewRequests(since [len(proxies)]faultproxy.Mark) {
	n := 0
	for at, proxy := range proxies {
		n += len(proxy.Requests(since[at], faultproxy.Match{Where: func(q faultproxy.Request) bool { return q.Verb != "watch" && r.named(q.Namespace, q.Name) }}))
	}
	for most := requested.Load(); int64(n) > most && !requested.CompareAndSwap(most, int64(n)); most = requested.Load() {
	}
	require.LessOrEqual(r, n, mostRequests, "requests about %s after the fault", r.prefix)
}

// requested is the largest number of requests that requireFewRequests has found.
var requested atomic.Int64

// marks returns the ends of the records of the proxies.
func marks() (all [len(proxies)]faultproxy.Mark) {
	for at, proxy := range proxies {
		all[at] = proxy.Mark()
	}
	return all
}

// silence waits until the operator writes nothing for rest, after everything is as the promises say. It returns the writes since marks.
func (r *run) silence(ctx context.Context, since [len(proxies)]faultproxy.Mark) (all []operation) {
	for n := -1; n != len(all) && ctx.Err() == nil; {
		n = len(all)
		select {
		case <-time.After(rest):
		case <-ctx.Done():
		}
		all = r.writes(since)
	}
	return all
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
	writes []operation
	events int
}

// onEvents has decide decide about the events that reach the operator.
func onEvents(decide func(faultproxy.Request, []byte) faultproxy.EventFault) {
	for _, proxy := range proxies {
		proxy.OnEvents(decide)
	}
}

// known has what undisturbed has found.
var known = map[string]seen{}

// undisturbed runs the scenarios without a fault, and returns the writes of the operators and the events of their watches in the last steps.
func undisturbed(t *testing.T, scenarios map[string]plan) map[string]seen {
	t.Helper()
	ctx, mu, found, e := t.Context(), sync.Mutex{}, map[string]seen{}, ends{t: t}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(scenarios)), func(name string) bool {
		s, is := known[name]
		if is {
			found[name] = s
		}
		return is
	})
	for batch := range slices.Chunk(names, 2*together) {
		runs, events := make([]*run, len(batch)), make([]atomic.Int64, len(batch))
		indexes := make([]int, len(batch))
		for i := range batch {
			indexes[i] = i
		}
		beside(t, indexes, func(i int) {
			runs[i] = newRun(ctx, t, t.Logf)
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
			r, since := runs[i], marks()
			r.step(ctx, scenarios[batch[i]].last())
			r.settle(ctx)
			s := seen{r.silence(ctx, since), int(events[i].Load())}
			require.NotEmpty(t, s.writes, batch[i])
			mu.Lock()
			defer mu.Unlock()
			found[batch[i]] = s
		})
		onEvents(nil)
		for i, r := range runs {
			e.add(ctx, r, scenarioName(batch[i]))
		}
	}
	e.wait()
	maps.Copy(known, found)
	return found
}

type scenarioName string

func (n scenarioName) String() string { return string(n) }

// scene is a run of a scenario up to its point. rule has the fault of the point.
type scene struct {
	point
	*run
	rule *faultproxy.Rule
}

// scenesOf begins a run for each point.
func scenesOf(ctx context.Context, t *testing.T, points []point) []*scene {
	scenes := make([]*scene, len(points))
	for i, p := range points {
		scenes[i] = &scene{point: p, run: newRun(ctx, t, t.Logf)}
	}
	return scenes
}

// killAt runs scenarios until each has reached its point, kills the operators of the points, starts them again, and checks what comes of them.
// It returns the points that were not reached.
func killAt(e *ends, scenarios map[string]plan, points []point) (missed []point) {
	t := e.t
	t.Helper()
	ctx := t.Context()
	scenes := scenesOf(ctx, t, points)
	beside(t, scenes, func(s *scene) { s.prepare(ctx, scenarios[s.scenario]) })
	e.wait()
	for _, s := range scenes {
		s.rule = s.inject(s.run, map[string]faultproxy.Fault{notSent: faultproxy.Stall(), committed: faultproxy.Late()}[s.fault])
		defer s.rule.Remove()
	}
	beside(t, scenes, func(s *scene) {
		since := marks()
		s.step(ctx, scenarios[s.scenario].last())
		waiting, stop := context.WithCancel(ctx)
		var watch sync.WaitGroup
		watch.Go(func() {
			for s.rule.Holding() == 0 && waiting.Err() == nil {
				time.Sleep(5 * time.Millisecond)
			}
			stop()
		})
		if s.settles(waiting) { // without the point, or before it
			s.silence(waiting, since)
		}
		stop()
		watch.Wait()
	})
	killed := map[*process]bool{}
	for _, s := range scenes {
		if s.rule.Hits() == 0 {
			missed = append(missed, s.point)
		}
		p := operators[0]
		if s.at == secondProxy {
			p = operators[1]
		}
		killed[p] = true
	}
	for p := range killed {
		require.NoError(t, p.kill())
	}
	for _, s := range scenes {
		require.Eventually(t, func() bool { return s.rule.Holding() == 0 }, patience, time.Millisecond, "the connections of the operator end")
		s.rule.Remove()
	}
	beside(t, scenes, func(s *scene) { s.lost(ctx) })
	since := marks()
	require.NoError(t, startOperators(ctx))
	beside(t, scenes, func(s *scene) {
		defer s.explain(t, s.point)
		s.settle(ctx)
		s.requireFewRequests(since)
	})
	for _, s := range scenes {
		e.add(ctx, s.run, s.point)
	}
	return missed
}

// inject has a fault hit the write of a point in a run.
func (p point) inject(r *run, fault faultproxy.Fault) *faultproxy.Rule {
	return proxies[p.at].Inject(faultproxy.Match{Where: func(q faultproxy.Request) bool {
		w, is := r.writeOf(p.at, q)
		w.nth = p.nth
		return is && w == p.operation
	}}, fault.Nth(p.nth))
}

// faultyAnswers runs scenarios with one faulty answer in each, and returns the points of the scenarios that ended without it.
func faultyAnswers(e *ends, scenarios map[string]plan, points []point) (missed []point) {
	t := e.t
	t.Helper()
	ctx := t.Context()
	scenes := scenesOf(ctx, t, points)
	beside(t, scenes, func(s *scene) {
		defer s.explain(t, s.point)
		s.prepare(ctx, scenarios[s.scenario])
		s.rule = s.inject(s.run, answers[s.fault])
		defer s.rule.Remove()
		since := marks()
		s.step(ctx, scenarios[s.scenario].last())
		s.settle(ctx)
		s.requireFewRequests(since)
	})
	for _, s := range scenes {
		e.add(ctx, s.run, s.point)
		if s.rule.Hits() == 0 {
			missed = append(missed, s.point)
		}
	}
	return missed
}
