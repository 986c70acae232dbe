package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMemoryRefuses(t *testing.T) {
	args := []string{observerCommand, "-way", "none"}
	require.Error(t, run(t.Context(), args), "an observer without an API server says so")
}

func TestMemoryReport(t *testing.T) {
	r := &report{}
	watchFigures{Bytes: 4000}.addTo(r, "dynamic informer")
	watchFigures{Bytes: memoryGoal, BytesEdited: memoryGoal + 1}.addTo(r, vidraSide)
	r.sumUp()
	require.InDelta(t, 0.13, r.Lines[0].side(vidraSide).Ratio, 1e-9, "beside the first way")
	require.Len(t, r.Goals, 1)
	require.False(t, r.Goals[0].reached(), "what edits leave behind counts, too")
	require.NoError(t, r.verdict())
	watchFigures{Work: 1}.addTo(r, vidraSide)
	require.ErrorContains(t, r.verdict(), "found work for 1 owners")
}
