package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/e2e/testenv"
	vidramanifest "github.com/vidra-operator/vidra/pkg/manifest"
)

func TestQuantile(t *testing.T) {
	tests := map[string]struct {
		reason string
		values []float64
		q      float64
		want   float64
	}{
		"none":    {reason: "no values have no quantile", q: 0.5},
		"one":     {reason: "one value is every quantile", values: []float64{7}, q: 0.95, want: 7},
		"odd":     {reason: "the median of an odd number is the one in the middle", values: []float64{9, 1, 5}, q: 0.5, want: 5},
		"even":    {reason: "of an even number it is between two", values: []float64{4, 1, 2, 3}, q: 0.5, want: 2.5},
		"p95":     {reason: "interpolated like the median", values: []float64{0, 10, 20}, q: 0.95, want: 19},
		"maximum": {reason: "the last one is in reach", values: []float64{1, 2}, q: 1, want: 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			require.InDelta(t, tt.want, quantile(tt.values, tt.q), 1e-9, tt.reason)
		})
	}
}

// newReport is a report of one line. The sides come in another order than the report has them.
func newReport() *report {
	r := &report{Benchmark: "heal", Settings: "3 rounds", Environment: environment{Kubernetes: "v1", CPUs: 2}}
	for _, ms := range []float64{12, 24, 90} {
		r.add("ConfigMap key removed", "ms", vidraSide, ms)
	}
	for _, ms := range []float64{10, 20, 30} {
		r.add("ConfigMap key removed", "ms", floorSide, ms)
	}
	c := r.cost(vidraSide)
	c.Usage = usage{CPU: 1.5, Resident: 64 << 20, Peak: 80 << 20}
	c.Requests, c.Of, c.Per = requests{Patch: 6, Events: 3, Other: map[string]int{"list nodes": 3}}, 3, "heal"
	r.cost(floorSide)
	r.sumUp()
	r.Goals = []goal{{"ratio", r.ratio(func(string) bool { return true }), 1.3}, {"other", 2, 1.3}}
	r.Notes = []string{"A note."}
	return r
}

func TestReport(t *testing.T) {
	r := newReport()
	require.Equal(t, &figures{
		Side: vidraSide, N: 3, Min: 12, Median: 24, P90: 76.8, P99: 88.68, Max: 90, Ratio: 1.2, Values: []float64{12, 24, 90},
	}, r.Lines[0].Sides[1])
	require.InDelta(t, 1.2, r.ratio(func(string) bool { return true }), 1e-9)
	require.NoError(t, r.verdict())
	var table, text bytes.Buffer
	require.NoError(t, r.table(&table))
	require.Equal(t, `heal: 3 rounds

WHAT                   SIDE      N MISSED       MIN    MEDIAN       P90       P99       MAX UNIT    RATIO
ConfigMap key removed  floor     3      0      10.0      20.0      28.0      29.8      30.0 ms
                       Vidra     3      0      12.0      24.0      76.8      88.7      90.0 ms       1.20

SIDE             CPU       RSS  PEAK RSS  REQUESTS
floor         0.00 s     0 MiB     0 MiB  -
Vidra         1.50 s    64 MiB    80 MiB  per heal: 2.00 PATCH, 1.00 for Events, 1.00 list nodes

Goal: ratio at most 1.30: 1.20 reached.
Goal: other at most 1.30: 2.00 missed.

A note.

Kubernetes v1, , , 2 CPUs
`, table.String())

	require.NoError(t, r.json(&text))
	var back report
	require.NoError(t, json.Unmarshal(text.Bytes(), &back))
	require.Equal(t, r.Lines, back.Lines, "JSON holds all of it")
	require.Equal(t, r.Costs, back.Costs)
	require.Equal(t, r.Goals, back.Goals)
}

func TestReportOfMisses(t *testing.T) {
	r := newReport()
	r.side("ConfigMap deleted", "ms", fluxSide).Missed = 2
	require.NoError(t, r.verdict(), "what the peer does not do is a figure")
	r.side("ConfigMap deleted", "ms", vidraSide).Missed = 1
	r.sumUp()
	require.ErrorContains(t, r.verdict(), "Vidra missed 1 of 4")
	require.NoError(t, r.json(&bytes.Buffer{}), "no figure is NaN")
	r.side("ConfigMap deleted", "ms", floorSide).Missed = 1
	require.ErrorContains(t, r.verdict(), "floor missed 1 of 4", "a floor that misses is no floor")
	r.Failures = []string{"it failed"}
	require.ErrorContains(t, r.verdict(), "it failed")
	var table strings.Builder
	require.NoError(t, r.table(&table))
	require.Contains(t, table.String(), "FAILED: it failed")
}

// TestShow writes the file of -json and prints what -o asks for.
func TestShow(t *testing.T) {
	o := commonOptions{output: "json", file: filepath.Join(t.TempDir(), "figures.json")}
	r := newReport()
	var out bytes.Buffer
	require.NoError(t, o.show(&out, r))
	written, err := os.ReadFile(o.file)
	require.NoError(t, err)
	require.Equal(t, out.String(), string(written))
	r.Failures = []string{"it failed"}
	require.ErrorContains(t, o.show(&out, r), "it failed")
	o.file = filepath.Join(t.TempDir(), "missing", "figures.json")
	require.ErrorContains(t, o.show(&out, r), "missing")
}

func TestCPUTimes(t *testing.T) {
	before := cpuTimes{"etcd": 1, operatorProcess: 2}
	taken := cpuTimes{"etcd": 1.5, operatorProcess: 4, benchProcess: 0}.since(before)
	require.Equal(t, cpuTimes{"etcd": 0.5, operatorProcess: 2, benchProcess: 0}, taken)
	require.InDelta(t, 2.5, taken.total(), 1e-9)
	require.Equal(t, cpuTimes{"etcd": 0.5, operatorProcess: 2, benchProcess: 0, sideProcess: 1}, taken.plus(cpuTimes{sideProcess: 1}))
	require.Equal(t, taken, cpuTimes(nil).plus(taken))
	require.Equal(t, "etcd 50.000 ms, operator 200.000 ms", taken.each(10))
	r := newReport()
	r.cost(vidraSide).CPU = taken
	var table strings.Builder
	require.NoError(t, r.table(&table))
	require.Contains(t, table.String(), "CPU time of all processes per heal: etcd 166.667 ms")
}

func TestCountRequests(t *testing.T) {
	const group = "infrahub.operators.com"
	audited := []testenv.AuditEvent{
		{User: operatorUser, Verb: "patch", Resource: "configmaps"},
		{User: operatorUser, Verb: "patch", Resource: "configmaps", RequestURI: "/api/v1/configmaps/x?dryRun=All"},
		{User: operatorUser, Verb: "get", Resource: "configmaps"},
		{User: operatorUser, Verb: "delete", Resource: "configmaps"},
		{User: operatorUser, Verb: "create", Group: "events.k8s.io", Resource: "events"},
		{User: operatorUser, Verb: "patch", Group: "events.k8s.io", Resource: "events"},
		{User: operatorUser, Verb: "patch", Group: group, Resource: "vidraresources", Subresource: "status"},
		{User: operatorUser, Verb: "patch", Group: group, Resource: "vidraresources"},
		{User: operatorUser, Verb: "get", RequestURI: "/apis/apps/v1"},
		{User: floorUser, Verb: "patch", Resource: "configmaps"},
	}
	sent := countRequests(audited, operatorUser)
	require.Equal(t, requests{
		Patch: 1, DryRun: 1, Get: 1, Delete: 1, Status: 1, Events: 2, Other: map[string]int{"patch vidraresources": 1, "get": 1},
	}, sent)
	require.Equal(t, len(audited)-1, sent.total())
	sent.add(sent)
	require.Equal(t, 2*(len(audited)-1), sent.total())
	require.Equal(t, 1, countRequests(audited, floorUser).Patch)
}

func TestManifest(t *testing.T) {
	for _, n := range []int{3, 500} {
		objects, err := vidramanifest.Parse(manifest("somewhere", n), vidramanifest.Options{})
		require.NoError(t, err)
		require.Len(t, objects, n)
	}
}

func TestStormManifest(t *testing.T) {
	objects, err := vidramanifest.Parse(stormManifest(), vidramanifest.Options{})
	require.NoError(t, err)
	require.Len(t, objects, stormObjects)
}

func TestBatch(t *testing.T) {
	b := batch{round: 2, sets: 2, perSet: 2}
	require.Equal(t, []string{"0", "1", "2", "3"}, []string{b.number(0), b.number(1), b.number(2), b.number(3)})
	b.value = "new"
	require.Equal(t, []string{"new", "1", "new", "3"}, []string{b.number(0), b.number(1), b.number(2), b.number(3)}, "one of each set")
	objects, err := vidramanifest.Parse(b.set("somewhere", 1), vidramanifest.Options{})
	require.NoError(t, err)
	require.Len(t, objects, 2)
}

func TestProgress(t *testing.T) {
	for _, terminal := range []bool{false, true} {
		var out bytes.Buffer
		p := progressOn(&out, terminal, "apply", 2)
		p.step("")
		p.step("round %d", 1)
		p.end()
		if terminal {
			require.Contains(t, out.String(), "1/2")
		} else {
			require.Equal(t, "apply: round 1\n", out.String(), "a line for each step with a text")
		}
	}
}
