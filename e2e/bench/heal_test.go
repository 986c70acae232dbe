package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestHeal runs the benchmark in small, on a real API server, then again with
// the operator dead.
func TestHeal(t *testing.T) {
	l, err := newLab(t.Context(), 5)
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

	require.NoError(t, l.operator.Kill())
	o.rounds, o.timeout = 1, 2*time.Second
	r, err = heal(t.Context(), l, o)
	require.NoError(t, err)
	require.ErrorContains(t, r.verdict(), "vidra missed 9 of 9 edits")
	for _, e := range r.Edits {
		require.Zero(t, e.Floor.Missed, "the floor goes on")
	}
}
