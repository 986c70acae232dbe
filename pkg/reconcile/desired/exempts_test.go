package desired

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestExempts: a path is exempt at and below each of the paths of a rule, in any order.
func TestExempts(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
	path := func() (names []string) {
		for range 1 + random.IntN(4) {
			names = append(names, string(rune('a'+random.IntN(3))))
		}
		return names
	}
	for range 2000 {
		var given [][]string
		for range random.IntN(6) {
			given = append(given, path())
		}
		exempt := Exemptions{managedPaths{paths: slices.Clone(given)}.sorted()}
		asked := path()
		want := len(given) == 0 || slices.ContainsFunc(given, func(above []string) bool { return isBelow(asked, above) })
		require.Equal(t, want, exempt.Exempts("kubectl", asked), "%q in %q", asked, given)
	}
	managed := Exemptions{managedPaths{paths: [][]string{{"a"}}, managers: []string{"tuner"}}.sorted()}
	require.True(t, managed.Exempts("tuner", []string{"a", "b"}))
	require.False(t, managed.Exempts("kubectl", []string{"a", "b"}))
	require.False(t, managed.Controlled([]string{"a"}))
}
