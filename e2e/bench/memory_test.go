package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMemory runs the benchmark in small, on a real API server. So few objects
// say nothing of the memory that one takes.
func TestMemory(t *testing.T) {
	r, err := memory(t.Context(), memoryOptions{objects: 50, perOwner: 10, timeout: time.Minute})
	require.NoError(t, err)
	require.Len(t, r.Ways, len(ways))
	for _, w := range r.Ways {
		require.Positive(t, w.Bytes, w.Way)
		require.Positive(t, w.Peak, w.Way)
		require.Positive(t, w.Sync, w.Way)
		require.Positive(t, w.CPU, w.Way)
	}
	require.NoError(t, r.verdict(), "neither the list nor the edits are work")
}

func TestMemoryRefuses(t *testing.T) {
	tests := map[string]struct {
		reason string
		args   []string
		want   string
	}{
		"no objects":   {"no object gives no figure", []string{"-objects", "0"}, "at least one"},
		"no resources": {"each object belongs to a VidraResource", []string{"-per-resource", "0"}, "at least one"},
		"output":       {"a format that is not known is not guessed", []string{"-o", "yaml"}, "table or json"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, runMemory(t.Context(), tt.args), tt.want, tt.reason)
		})
	}
	args := []string{observerCommand, "-way", "none"}
	require.Error(t, run(t.Context(), args), "an observer without an API server says so")
}

func TestMemoryReport(t *testing.T) {
	r := memoryReport{Objects: 3, Goal: memoryGoal, Ways: []wayReport{
		{Way: "dynamic informer", watchFigures: watchFigures{Bytes: 4000}},
		{Way: vidraWay, watchFigures: watchFigures{Bytes: memoryGoal, BytesEdited: memoryGoal, Peak: 3 << 20, Sync: 1.5, CPU: 7}},
	}}
	var out bytes.Buffer
	require.NoError(t, r.table(&out))
	require.Contains(t, out.String(), "goal 512 B reached")
	require.Contains(t, out.String(), "3.0 MiB")
	require.NoError(t, r.verdict())

	r.Ways[1].BytesEdited++
	require.NoError(t, r.table(&out))
	require.Contains(t, out.String(), "goal 512 B missed", "what edits leave behind counts too")

	r.Ways[1].Work = 1
	require.ErrorContains(t, r.verdict(), "found work for 1 owners")

	out.Reset()
	require.NoError(t, r.json(&out))
	require.Contains(t, out.String(), `"bytesPerObject": 4000`)
}
