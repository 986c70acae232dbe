package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// newTestLab is a lab for many small benchmarks.
func newTestLab(t *testing.T, peer bool) *lab {
	t.Helper()
	needs := (&remotesOptions{}).setup()
	needs.args = append(needs.args, (&revisionOptions{}).setup().args...)
	l, err := newLab(t.Context(), commonOptions{peer: peer}, needs)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.close()) })
	l.quiet = 500 * time.Millisecond
	return l
}

// TestBenchmarks runs the benchmarks of the operator in small, on a real API server.
func TestBenchmarks(t *testing.T) {
	l := newTestLab(t, true)
	small := func(rounds int) batchOptions {
		return batchOptions{resources: 3, perOwner: 2, rounds: rounds, timeout: time.Minute}
	}
	run := func(b benchmark, values int) *report {
		require.NoError(t, b.check())
		r, err := b.measure(t.Context(), l)
		require.NoError(t, err)
		requireMeasured(t, r, values)
		return r
	}
	sent := func(r *report, side string) requests { return r.cost(side).Requests }

	r := run(&applyOptions{batchOptions: small(2)}, 2)
	require.Equal(t, 2*3*2, sent(r, floorSide).Patch, "one PATCH an object")
	require.Equal(t, 2*3*2, sent(r, vidraSide).Patch, "one PATCH an object")
	require.Equal(t, 2*3*2, sent(r, fluxSide).Patch, "one PATCH an object")
	require.Equal(t, 2*3*2, sent(r, fluxSide).DryRun, "and a dry run before")

	r = run(&changeOptions{small(2)}, 2)
	require.Equal(t, 2*3, sent(r, floorSide).Patch, "one PATCH for each changed object")
	require.Equal(t, 2*3, sent(r, vidraSide).Patch, "and none for the others")
	require.Equal(t, 2*3, sent(r, fluxSide).Patch, "and none for the others")

	r = run(&pruneOptions{small(1)}, 1)
	for _, side := range []string{floorSide, vidraSide, fluxSide} {
		require.Equal(t, 3*2, sent(r, side).Delete, "%s sends one DELETE an object", side)
	}

	r = run(&restartOptions{batchOptions: small(1), damaged: 4}, 1)
	require.Equal(t, 4, sent(r, vidraSide).Patch, "one PATCH for each damaged object, and no other")

	r = run(&kindsOptions{kinds: 3, edits: 2, timeout: time.Minute}, 0)
	require.Equal(t, 2, r.Lines[2].side(vidraSide).N)
	require.Equal(t, 3, sent(r, vidraSide).Patch, "one PATCH an object")

	r = run(&remotesOptions{clusters: 3, perOwner: 2, edits: 1, delay: 50 * time.Millisecond, timeout: time.Minute}, 1)
	require.Len(t, r.Lines, 5)

	r = run(&steadyOptions{batchOptions: small(1), window: time.Second, backstop: 2 * time.Second}, 0)
	line := r.Lines[len(r.Lines)-2]
	require.Equal(t, compareNumber, line.Name)
	require.InDelta(t, 2*3*2, line.side(fluxSide).Median, 4, "a GET and a dry run of each object, and discovery")

	r = run(&webhookOptions{rounds: 2, artifacts: 3, pause: 10 * time.Millisecond, timeout: time.Minute}, 2)
	require.Equal(t, 2, r.cost(vidraSide).Of)

	r = run(&revisionOptions{rounds: 2, objects: 3, pause: 10 * time.Millisecond, timeout: time.Minute}, 2)
	require.Equal(t, 2, r.cost(vidraSide).Of)
}

// TestHeal measures heals in small, with and without a storm, and once more with the operator dead.
func TestHeal(t *testing.T) {
	l := newTestLab(t, true)
	o := &healOptions{
		rounds: 2, objects: 5, others: othersPerSet, updates: 50, pause: 10 * time.Millisecond,
		timeout: 20 * time.Second, peerTimeout: 2 * time.Second,
	}
	r, err := o.measure(t.Context(), l)
	require.NoError(t, err)
	for _, line := range r.Lines {
		line.Sides = line.Sides[:2] // the peer misses edits
	}
	requireMeasured(t, r, 2)
	require.Regexp(t, `[1-9]\d* made`, r.Settings, "there were updates")
	heals, structural := 2*len(edits), 0
	for _, e := range edits {
		if e.structural != "" {
			structural += 2
		}
	}
	sent := r.cost(vidraSide).Requests
	repeated := sent.Get // a controller wrote between the two requests of a structural heal
	require.LessOrEqual(t, repeated, structural, "no GET otherwise")
	require.Equal(t, heals+structural+repeated, sent.Patch, "one PATCH per heal, two where the edit was structural")
	require.Positive(t, r.cost(fluxSide).Requests.DryRun)

	require.NoError(t, l.operator.Kill())
	floor, err := startFloor(t.Context(), l.kubeconfigs[floorNamespace], floorNamespace)
	require.NoError(t, err)
	o.rounds = 1
	sides, err := newSides(l, floor, nil, o)
	require.NoError(t, err)
	for kind, target := range sides[1].targets {
		target.Timeout = time.Second
		sides[1].targets[kind] = target
	}
	r, err = o.run(t.Context(), l, sides)
	require.NoError(t, err)
	require.NoError(t, floor.stop())
	require.ErrorContains(t, r.verdict(), "Vidra missed 9 of 9")
	for _, line := range r.Lines {
		require.Equal(t, 1, line.side(floorSide).N, "the floor goes on: %s", line.Name)
	}
}

// requireMeasured requires that nothing fails in a report, and that it has so many values of each side
// if that is not 0.
func requireMeasured(t *testing.T, r *report, n int) {
	t.Helper()
	require.NoError(t, r.verdict())
	require.NotEmpty(t, r.Lines)
	for _, l := range r.Lines {
		for _, f := range l.Sides {
			require.NotZero(t, f.N, "%s of %s", l.Name, f.Side)
			if n > 0 {
				require.Equal(t, n, f.N, "%s of %s", l.Name, f.Side)
				require.Positive(t, f.Median, "%s of %s", l.Name, f.Side)
			}
		}
	}
	require.Positive(t, r.cost(vidraSide).Usage.Resident)
}
