package limits

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestGateOfManyVidraResources has thousands of VidraResources wait for slots: an end of a heal costs about what it costs with few that wait. A
// reconcile waits, too, whose own bound is reached.
func TestGateOfManyVidraResources(t *testing.T) {
	heals := func(owners int) time.Duration {
		return fixture.ProcessorTime(t, func() {
			var entered, woken []trigger.Heal
			g := NewGate(func(h trigger.Heal) { woken = append(woken, h) })
			for n := range gateOfOwnKindFirst[routine] {
				_, ok := enterRoutine(t, g, heal("large", "", "configmaps", n))
				require.True(t, ok)
			}
			g.awaitLocked(heal("large", "", "configmaps", -1), routine, make(chan struct{}))
			for n := range owners {
				if h := heal(fmt.Sprint(n), "", fmt.Sprint("kind", n%8), n); g.Enter(h) {
					entered = append(entered, h)
				}
			}
			ended := 0
			for ; len(entered) > 0; ended++ {
				g.Leave(entered[0], Answered)
				entered = entered[1:]
				for _, h := range woken {
					require.True(t, g.Enter(h))
				}
				entered, woken = append(entered, woken...), nil
			}
			require.Equal(t, owners, ended)
		}) / time.Duration(owners)
	}
	few, many := heals(500), heals(4000)
	t.Logf("%s for each heal of 500 VidraResources, %s of 4000", few, many)
	require.Less(t, many, 4*few)
}
