package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/pkg/events"
)

// TestTimeToEnd: whatever takes as long as it may when the operator ends, it has ended
// well before the kubelet kills it.
func TestTimeToEnd(t *testing.T) {
	t.Parallel()
	const margin = 5 * time.Second
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "manager", "deployment.yaml"))
	require.NoError(t, err)
	deployment := &appsv1.Deployment{}
	require.NoError(t, yaml.UnmarshalStrict(text, deployment))
	grace := time.Duration(*deployment.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
	require.LessOrEqual(t, shutdownTimeout+renewDeadline+interruptedTimeout+events.FlushTimeout, grace-margin)
	require.Less(t, flushTimeout, shutdownTimeout, "statuses are written while the Lease is held")
}

// TestFlagsThatAreRefused: the operator does not start with a flag that it cannot honor.
func TestFlagsThatAreRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ flag, want string }{
		"no worker":            {"--workers=0", "--workers is 0: at least one is needed"},
		"unknown event values": {"--event-values=some", `--event-values is "some": it must be all or none`},
		"negative break-glass": {"--max-break-glass=-1s", "--max-break-glass is -1s: give 0 to accept no break-glass"},
		"unknown additions":    {"--drift-additions=Delete", `--drift-additions is "Delete": it must be Keep, Warn or Revert`},
		"tools in a pattern":   {"--people-tools=[", "--people-tools: "},
		"short interval":       {"--default-interval=1s", "--default-interval is 1s: it must be at least 10s"},
		"pprof without port":   {"--pprof-bind-address=localhost", `--pprof-bind-address is "localhost": it must be HOST:PORT, or :PORT for 127.0.0.1`},
		"headers, no sink":     {"--cloudevents-headers-file=/headers", "--cloudevents-headers-file: it has no effect without --cloudevents-sink"},
		"sink without scheme":  {"--cloudevents-sink=sink.example.com", "--cloudevents-sink: "},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts, fs := options{}, flag.NewFlagSet("", flag.ContinueOnError)
			opts.bind(fs)
			require.NoError(t, fs.Parse([]string{tt.flag}))
			require.ErrorContains(t, run(t.Context(), opts), tt.want)
		})
	}
}

// TestNotReadyBeforeTheCaches: /readyz fails until the caches are synced.
func TestNotReadyBeforeTheCaches(t *testing.T) {
	t.Parallel()
	check := &syncedCheck{}
	require.ErrorContains(t, check.check(nil), "not synced")
	check.synced.Store(true)
	require.NoError(t, check.check(nil))
}
