package search

import (
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/e2e/suite"
)

// TestTransitions runs generated plans. After each: the objects equal those of a fresh apply of the last specs, uids of objects that
// were wanted all the time survived, nothing unmanaged was changed or deleted, a valid spec recovered from an invalid one, and the operator
// sends no request any more.
func TestTransitions(t *testing.T) {
	n := suite.Size(16, 500)
	if given := os.Getenv("VIDRA_PLANS"); given != "" {
		var err error
		n, err = strconv.Atoi(given)
		require.NoError(t, err, "VIDRA_PLANS")
	}
	for name, value := range map[string]string{
		"rapid.checks": strconv.Itoa(n), "rapid.seed": strconv.FormatUint(suite.Seed(t)%(1<<62), 10), "rapid.nofailfile": "true",
		"rapid.shrinktime": map[bool]string{true: "10m", false: "1s"}[suite.Long()],
	} {
		require.NoError(t, flag.Set(name, value))
	}
	begin, done, steps := time.Now(), 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		p := plans(rt)
		defer func() {
			if rt.Failed() {
				t.Logf("the plan:\n%s", yamlOf(t, p))
			}
		}()
		execute(rt, t.Logf, p)
		done, steps = done+1, steps+len(p.Steps)
	})
	t.Logf("%d plans, %d steps, %s", done, steps, time.Since(begin).Round(time.Second))
}

// TestPlans runs the plans that have found faults.
func TestPlans(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	require.NoError(t, err)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			p := plan{}
			require.NoError(t, yaml.UnmarshalStrict(text, &p))
			execute(t, t.Logf, p)
		})
	}
}

func yamlOf(t *testing.T, p plan) string {
	t.Helper()
	text, err := yaml.Marshal(p)
	require.NoError(t, err)
	return string(text)
}
