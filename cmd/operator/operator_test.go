package main

import (
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
	require.LessOrEqual(t, shutdownTimeout+renewDeadline+tellTimeout+events.FlushTimeout, grace-margin)
	require.Less(t, flushTimeout, shutdownTimeout, "statuses are written while the Lease is held")
}
