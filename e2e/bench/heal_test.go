package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOperator runs the benchmarks of the operator in small, on a real API server, and that of
// heals once more with the operator dead.
func TestOperator(t *testing.T) {
	l, err := newHealLab(t.Context(), "", 5)
	require.NoError(t, err)
	defer func() { require.NoError(t, l.close()) }()
	o := healOptions{rounds: 2, objects: 5, pause: 100 * time.Millisecond, timeout: 10 * time.Second}
	r, err := heal(t.Context(), l, o)
	require.NoError(t, err)
	require.NoError(t, r.verdict(), "nothing is missed")
	require.Equal(t, 2*len(edits), r.Heals)
	repeated := r.Requests.Get // a controller wrote between the two requests of a structural heal
	require.LessOrEqual(t, repeated, 2*structuralEdits(), "no GET otherwise")
	require.Equal(t, r.Heals+2*structuralEdits()+repeated, r.Requests.Patch, "one PATCH per heal, two where the edit was structural")
	for _, e := range r.Edits {
		require.Equal(t, 2, e.Floor.N, e.Edit)
		require.Positive(t, e.Ratio, e.Edit)
	}

	small := applyOptions{resources: 3, perOwner: 2, rounds: 2, timeout: time.Minute}
	applied, err := apply(t.Context(), l, small)
	require.NoError(t, err)
	require.Equal(t, 2*3*2, applied.Requests.Patch, "one PATCH an object")
	require.Positive(t, applied.Usage.CPU)
	require.Positive(t, applied.Ratio)
	restarted, err := restart(t.Context(), l, restartOptions{applyOptions: small, edited: 4})
	require.NoError(t, err)
	require.NoError(t, restarted.verdict())
	require.Equal(t, 4, restarted.Requests.Patch, "one PATCH for each edited object, and no other")
	require.Positive(t, restarted.List)
	require.Positive(t, restarted.Reverted)
	for _, r := range []report{applied, restarted} {
		var table, json bytes.Buffer
		require.NoError(t, r.table(&table))
		require.NoError(t, r.json(&json))
		require.Contains(t, table.String(), "3 VidraResources with 2 ConfigMaps each")
		require.Contains(t, json.String(), `"resources": 3`)
	}

	require.NoError(t, l.operator.Kill())
	o.rounds, o.timeout = 1, 2*time.Second
	r, err = heal(t.Context(), l, o)
	require.NoError(t, err)
	require.ErrorContains(t, r.verdict(), "vidra missed 9 of 9 edits")
	for _, e := range r.Edits {
		require.Zero(t, e.Floor.Missed, "the floor goes on")
	}
}
