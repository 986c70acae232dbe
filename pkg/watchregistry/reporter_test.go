package watchregistry

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/cluster"
)

// TestReporter: the log has the first failure of a watch on kinds that is unusual after a start, and its end.
func TestReporter(t *testing.T) {
	t.Parallel()
	var lines []string
	log := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
	c := &clusterWatches{registry: &Registry{opts: Options{Log: log}}, name: "https://remote:6443"}
	report := c.reporter(cluster.Definitions)
	c.noticing.Add(1) // it is synced
	starting := fmt.Errorf("list: %w", cluster.ErrStarting)
	report(failed, ReasonUnavailable, starting)
	require.Empty(t, lines)
	require.Zero(t, c.noticing.Load())
	report(failed, ReasonUnavailable, errors.New("refused"))
	report(failed, ReasonUnavailable, errors.New("refused"))
	require.Len(t, lines, 1)
	require.Contains(t, lines[0], "refused")
	report(answered, "", nil)
	require.Len(t, lines, 2)
	require.EqualValues(t, 1, c.noticing.Load())

	report(failed, ReasonUnavailable, starting)
	report(answered, "", nil)
	require.Len(t, lines, 2)
	require.EqualValues(t, 1, c.noticing.Load())
}
