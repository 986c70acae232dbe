package desired

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/internal/fixture"
)

// TestWorkOfExemptions asks about as many additions as an object has room for, at the deepest level, with as many exempt paths as there may be.
func TestWorkOfExemptions(t *testing.T) {
	const additions, levels = 20_000, 250
	above := slices.Repeat([]string{"a"}, levels)
	at := func(name string) []string { return append(slices.Clone(above), name) }
	m := managedPaths{}
	for i := range maxIgnored {
		m.paths = append(m.paths, at(fmt.Sprintf("ignored%d", i)))
	}
	exempt := Exemptions{m.sorted()}
	var paths [][]string
	for i := range additions {
		paths = append(paths, at(fmt.Sprintf("added%d", i)))
	}
	took := fixture.ProcessorTime(t, func() {
		for _, path := range paths {
			require.False(t, exempt.Exempts("kubectl-edit", path))
		}
	})
	t.Log(took)
	require.Less(t, took, 8*time.Second) // it takes 0.2 s, and the comparison of each with each 19 s
	require.True(t, exempt.Exempts("kubectl-edit", at("ignored7")))
}
