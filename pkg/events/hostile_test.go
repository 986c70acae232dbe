package events

import (
	"cmp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/internal/fixture"
)

// TestHostileStatus: the Events between any two statuses that other clients may write.
func TestHostileStatus(t *testing.T) {
	for seed := range uint64(fixture.HostileSeeds) {
		before, after := fixture.HostileStatus(seed), fixture.HostileStatus(seed+fixture.HostileSeeds)
		changes := []Change{{Action: Restored, Object: owner}}
		for _, e := range after.ManagedResources {
			changes = append(changes, Change{Action: Answered, Object: owner, BreakGlass: e.BreakGlass})
		}
		require.NotPanics(t, func() {
			for _, e := range Transitions(owner, before, after, changes) {
				e.Note = cmp.Or(e.Note, "none") // the message of a condition may be empty
				requireAccepted(t, e)
			}
			ProblemNames(after.Problems, after.ManagedResources)
			require.Empty(t, Transitions(owner, after, after, nil), "seed %d: nothing has changed", seed)
		}, "seed %d", seed)
	}
}
