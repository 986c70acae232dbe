package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

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

// lapsOf gives every edit the same laps.
func lapsOf(missed int, ms ...int) []laps {
	l := laps{missed: missed}
	for _, m := range ms {
		l.stood = append(l.stood, time.Duration(m)*time.Millisecond)
	}
	all := make([]laps, len(edits))
	for i := range all {
		all[i] = l
	}
	return all
}

func TestHealReport(t *testing.T) {
	o := healOptions{rounds: 3, objects: 3}
	sent := requests{Patch: 27, Status: 9, Events: 54, Other: map[string]int{}}
	r := newHealReport(o, environment{Kubernetes: "v1", CPUs: 2}, lapsOf(0, 10, 20, 30), lapsOf(0, 12, 24, 90), sent)
	require.InDelta(t, 1.2, r.Ratio, 1e-9, "24 ms to 20 ms")
	require.Equal(t, 3*len(edits), r.Heals)
	require.Equal(t, figures{N: 3, Median: 24, P95: 83.4}, r.Edits[0].Vidra)
	require.NoError(t, r.verdict())

	var table, text strings.Builder
	require.NoError(t, r.table(&table))
	require.Contains(t, table.String(), "ConfigMap key removed           3       0        20.0 ms   29.0 ms        24.0 ms   83.4 ms    1.20\n")
	require.Contains(t, table.String(), "goal 1.3 reached")
	require.Contains(t, table.String(), "one PATCH: 1.20, goal 2.2 reached")
	require.Contains(t, table.String(), "1.00 PATCH, 0.00 GET; 0.33 status patches, 2.00 for Events")

	require.NoError(t, r.json(&text))
	var back healReport
	require.NoError(t, json.Unmarshal([]byte(text.String()), &back))
	require.Equal(t, *r, back, "JSON holds all of it")
}

func TestHealReportOfMisses(t *testing.T) {
	tests := map[string]struct {
		reason       string
		floor, vidra []laps
		want         string
	}{
		"vidra": {
			reason: "one missed edit fails the benchmark", floor: lapsOf(0, 10), vidra: lapsOf(1, 10),
			want: "vidra missed 9 of 18 edits",
		},
		"vidra always": {
			reason: "without a single heal there is a report, too", floor: lapsOf(0, 10), vidra: lapsOf(2),
			want: "vidra missed 18 of 18 edits",
		},
		"floor": {
			reason: "a floor that misses is no floor", floor: lapsOf(1, 10), vidra: lapsOf(0, 10), want: "the floor missed 9",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := newHealReport(healOptions{}, environment{}, tt.floor, tt.vidra, requests{})
			require.ErrorContains(t, r.verdict(), tt.want, tt.reason)
			require.NoError(t, r.table(&strings.Builder{}))
			require.NoError(t, r.json(&strings.Builder{}), "no figure is NaN")
		})
	}
}

func TestCountRequests(t *testing.T) {
	const group = "infrahub.operators.com"
	audited := []testenv.AuditEvent{
		{User: operatorUser, Verb: "patch", Resource: "configmaps"},
		{User: operatorUser, Verb: "get", Resource: "configmaps"},
		{User: operatorUser, Verb: "create", Group: "events.k8s.io", Resource: "events"},
		{User: operatorUser, Verb: "patch", Group: "events.k8s.io", Resource: "events"},
		{User: operatorUser, Verb: "patch", Group: group, Resource: "vidraresources", Subresource: "status"},
		{User: operatorUser, Verb: "patch", Group: group, Resource: "vidraresources"},
		{User: operatorUser, Verb: "get", RequestURI: "/apis/apps/v1"},
		{User: "system:serviceaccount:bench-floor:floor", Verb: "patch", Resource: "configmaps"},
	}
	require.Equal(t, requests{
		Patch: 1, Get: 1, Status: 1, Events: 2, Other: map[string]int{"patch vidraresources": 1, "get ": 1},
	}, countRequests(audited))
}

func TestManifest(t *testing.T) {
	for _, n := range []int{3, 500} {
		objects, err := vidramanifest.Parse(manifest("somewhere", n), vidramanifest.Options{})
		require.NoError(t, err)
		require.Len(t, objects, n)
	}
}
