package render

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
)

// TestObjectCounts counts objects in states of other versions, too: the first operator wrote none.
func TestObjectCounts(t *testing.T) {
	for want, counts := range map[string]map[string]int{
		"none":                            {},
		"2 Applied, 1 Failed":             {"Failed": 1, "Applied": 2},
		"1 Applied, 2 Archived, 1 Frozen": {"Frozen": 1, "Applied": 1, "Archived": 2},
		"3 without a state":               {"": 3},
	} {
		require.Equal(t, want, ObjectCounts(counts))
	}
}

// TestUnknownMode shows a mode that only a later version knows.
func TestUnknownMode(t *testing.T) {
	vr := &v1alpha1.VidraResource{}
	vr.Spec.Drift = &v1alpha1.DriftPolicy{Mode: "Audit"}
	require.Equal(t, "Audit (which this version of vidra does not know), nothing was reverted yet", driftOf(vr, time.Time{}))
	require.Equal(t, " (state Frozen; spec.drift.mode Audit, which this version of vidra does not know)", remarks(insight.ManagedBy{State: "Frozen", Drift: "Audit"}))
}
