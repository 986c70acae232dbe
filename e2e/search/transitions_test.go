package search

import (
	"flag"
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/vidra-operator/vidra/e2e/suite"
)

// TestTransitions runs generated plans. After each: the objects equal those of a fresh apply of the last specs, uids of objects that
// were wanted all the time survived, nothing unmanaged was changed or deleted, a valid spec recovered from an invalid one, and the operator
// sends no request any more.
func TestTransitions(t *testing.T) {
	n := planCount(t, 2*manyPlans, 500)
	for name, value := range map[string]string{
		"rapid.checks": strconv.Itoa((n + manyPlans - 1) / manyPlans), "rapid.seed": strconv.FormatUint(suite.Seed(t)%(1<<62), 10), "rapid.nofailfile": "true",
		"rapid.shrinktime": map[bool]string{true: "10m", false: "1s"}[suite.Long()],
	} {
		require.NoError(t, flag.Set(name, value))
	}
	begin, done, steps := time.Now(), 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		var batch []plan
		for range manyPlans {
			if rapid.IntRange(0, 9).Draw(rt, "present") > 0 { // a plan less is a smaller failure
				batch = append(batch, plans(rt))
			}
		}
		lose := rapid.IntRange(0, 2).Draw(rt, "lose") == 0
		for i := range batch {
			batch[i].Slow = rapid.IntRange(0, 2).Draw(rt, "slow") == 0
			if lose {
				batch[i] = batch[i].losing()
			}
			if rapid.IntRange(0, 3).Draw(rt, "accounted") == 0 {
				batch[i] = batch[i].accounted()
			}
		}
		for _, p := range execute(t.Logf, batch) {
			rt.Errorf("a promise is broken by the plan, beside %d others:\n%s", len(batch)-1, p)
		}
		for _, p := range batch {
			done, steps = done+1, steps+len(p.Steps)
		}
	})
	t.Logf("%d plans, %d steps, %s", done, steps, time.Since(begin).Round(time.Second))
}

// planCount returns how many plans a test runs. VIDRA_PLANS gives another number.
func planCount(t *testing.T, short, long int) int {
	t.Helper()
	given := os.Getenv("VIDRA_PLANS")
	if given == "" {
		return suite.Size(short, long)
	}
	n, err := strconv.Atoi(given)
	require.NoError(t, err, "VIDRA_PLANS")
	return n
}

// TestPlans runs the plans that have found faults.
func TestPlans(t *testing.T) {
	require.Empty(t, execute(t.Logf, slices.Collect(maps.Values(scenarios(t, ".")))))
}

// TestKindReturns runs plans that delete a kind in the middle of applies and removals, one by one.
func TestKindReturns(t *testing.T) {
	for name, p := range scenarios(t, "kinds") {
		t.Run(name, func(t *testing.T) { require.Empty(t, execute(t.Logf, []plan{p})) })
	}
}

// TestLostKeys runs plans that lose the keys of digests, apart from those with revisions, whose digests have these keys.
func TestLostKeys(t *testing.T) {
	require.Empty(t, execute(t.Logf, slices.Collect(maps.Values(scenarios(t, "lost-keys")))))
}
