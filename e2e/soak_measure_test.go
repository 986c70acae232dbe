package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/suite"
)

// soakSample is what the operator takes at a moment.
type soakSample struct {
	when   string
	at     time.Duration
	values map[string]float64
}

// soakTolerances are how much of each value may be more at the end of a process than at rest before, as a
// share of it and in addition: connections that are idle, and histories and caches that are bounded. The heap in
// use and resident memory have no limit: after a hostile manifest, what is live lies between what is free.
var soakTolerances = []struct {
	name, metric string
	share, more  float64
	format       func(float64) string
}{
	{"goroutines", "go_goroutines", 0.05, 20, soakNumber},
	{"file descriptors", "process_open_fds", 0.05, 10, soakNumber},
	{"live heap", "go_memstats_heap_alloc_bytes", 0.1, 4 << 20, soakBytes},
	{"heap in use", "go_memstats_heap_inuse_bytes", 0, math.Inf(1), soakBytes},
	{"resident memory", "process_resident_memory_bytes", 0, math.Inf(1), soakBytes},
	{"open watches", "", 0, 0, soakNumber},
	{"watched kinds", "vidra_watch_owners", 0, 0, soakNumber},
}

func soakNumber(v float64) string { return fmt.Sprintf("%.0f", v) }
func soakBytes(v float64) string  { return fmt.Sprintf("%.1f MiB", v/(1<<20)) }

// soakCounters are the counters of the operator in the report, by the beginning of a series and a part of it.
var soakCounters = []struct{ name, series, part string }{
	{"heals", "vidra_heals_total", ""},
	{"heals delayed by contention", "vidra_heals_held_total", ""},
	{"audits", "vidra_watch_audits_total", ""},
	{"inconsistencies", "vidra_watch_inconsistencies_total", ""},
	{"backstop corrections", "vidra_backstop_corrections_total", ""},
	{"backstop failures", "vidra_backstop_failures_total", ""},
	{"restarts of watches", "vidra_watch_restarts_total", ""},
	{"causes overflowed", "vidra_trigger_causes_overflowed_total", ""},
	{"Events recorded", "vidra_events_total", `outcome="recorded"`},
	{"Events refused", "vidra_events_total", `outcome="refused"`},
	{"Events dropped", "vidra_events_total", `outcome="dropped"`},
}

// readCounters adds the counters of the operator to the total, stores its log in the artifacts of the test, and notes
// what the backstop corrected. It is called once for each process, right before it ends; what it does after that is not
// counted.
func (s *soak) readCounters() {
	printed := suite.LogOf(s.t, s.operator)
	require.NoError(s.t, os.WriteFile(filepath.Join(s.t.ArtifactDir(), filepath.Base(s.operator.Log)), []byte(printed), 0o600))
	for line := range strings.Lines(printed) {
		if strings.Contains(line, "The backstop found a change") {
			s.notes = append(s.notes, strings.TrimSpace(line))
		}
	}
	for series, value := range suite.Metrics(s.t, s.operator) {
		for _, c := range soakCounters {
			if strings.HasPrefix(series, c.series) && strings.Contains(series, c.part) {
				s.total[c.name] += int(value)
			}
		}
	}
}

// watch takes a sample, if the operator runs.
func (s *soak) watch() string {
	if !s.down {
		s.take("")
	}
	return ""
}

// sample collects garbage in the operator, stores a profile of its heap in the artifacts of the test, and takes a
// sample at rest.
func (s *soak) sample(when string) soakSample {
	s.collectGarbage(io.Discard)
	profile, err := os.Create(filepath.Join(s.t.ArtifactDir(), "heap-"+strings.ReplaceAll(when, " ", "-")+".pb.gz"))
	require.NoError(s.t, err)
	s.collectGarbage(profile) // the second time frees what finalizers kept
	require.NoError(s.t, profile.Close())
	return s.take(when)
}

// collectGarbage collects garbage in the operator, and writes a profile of its heap.
func (s *soak) collectGarbage(profile io.Writer) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.pprof+"/debug/pprof/heap?gc=1", http.NoBody)
	require.NoError(s.t, err)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(s.t, err)
	_, err = io.Copy(profile, answer.Body)
	require.NoError(s.t, errors.Join(err, answer.Body.Close()))
}

func (s *soak) take(when string) soakSample {
	sample := soakSample{when: when, at: time.Since(s.began), values: map[string]float64{}}
	for series, value := range suite.Metrics(s.t, s.operator) {
		for _, v := range soakTolerances {
			switch {
			case v.metric == "vidra_watch_owners" && strings.HasPrefix(series, v.metric+"{"):
				sample.values[v.name]++
			case series == v.metric:
				sample.values[v.name] = value
			}
		}
	}
	watches := faultproxy.Match{Verb: "watch"}
	sample.values["open watches"] = float64(s.local.Streams(watches) + s.remote.Streams(watches))
	s.samples = append(s.samples, sample)
	return sample
}

// soakRequireFlat requires that a process takes no more than at rest before.
func soakRequireFlat(t *testing.T, before, after soakSample) {
	t.Helper()
	for _, v := range soakTolerances {
		require.LessOrEqual(t, after.values[v.name], before.values[v.name]*(1+v.share)+v.more, v.name)
	}
}

// report logs the figures.
func (s *soak) report() {
	var b strings.Builder
	fmt.Fprintf(&b, "VIDRA_SEED=%d, %s of actions, %s in all; %d VidraResources\n", s.seed, s.length, time.Since(s.began).Round(time.Second), len(s.owners)+len(s.slots))
	w := &strings.Builder{}
	for _, name := range slices.Sorted(maps.Keys(s.done)) {
		fmt.Fprintf(w, "%s\t%d\n", name, s.done[name])
	}
	fmt.Fprintln(w, "\nCounters of the operator")
	for _, c := range soakCounters {
		fmt.Fprintf(w, "%s\t%d\n", c.name, s.total[c.name])
	}
	fmt.Fprint(w, "\nWhile the actors act")
	for _, heading := range []string{"first", "last", "max"} {
		fmt.Fprintf(w, "\t%s", heading)
	}
	acting := slices.DeleteFunc(slices.Clone(s.samples), func(x soakSample) bool { return x.when != "" })
	resting := slices.DeleteFunc(slices.Clone(s.samples), func(x soakSample) bool { return x.when == "" })
	for _, v := range soakTolerances {
		if len(acting) == 0 {
			break
		}
		most := 0.0
		for _, x := range acting {
			most = max(most, x.values[v.name])
		}
		fmt.Fprintf(w, "\n%s\t%s\t%s\t%s", v.name, v.format(acting[0].values[v.name]), v.format(acting[len(acting)-1].values[v.name]), v.format(most))
	}
	fmt.Fprint(w, "\n\nAt rest, after garbage collection")
	for _, x := range resting {
		fmt.Fprintf(w, "\t%s (%s)", x.when, x.at.Round(time.Second))
	}
	for _, v := range soakTolerances {
		fmt.Fprintf(w, "\n%s", v.name)
		for _, x := range resting {
			fmt.Fprintf(w, "\t%s", v.format(x.values[v.name]))
		}
	}
	fmt.Fprintf(w, "\n\n%s\n", strings.Join(s.notes, "\n"))
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, err := io.WriteString(table, w.String())
	require.NoError(s.t, err)
	require.NoError(s.t, table.Flush())
	s.t.Log(b.String())
}
