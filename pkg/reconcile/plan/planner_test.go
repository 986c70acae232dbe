package plan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// TestWatchKey has a watch for each kind, and for each of its namespaces where Vidra is limited to some.
func TestWatchKey(t *testing.T) {
	t.Parallel()
	limited, err := cluster.LocalScope("shop")
	require.NoError(t, err)
	tests := map[string]struct {
		reason    string
		scope     cluster.Scope
		namespace string
		want      string
	}{
		"Unlimited":      {"One watch is for all namespaces.", cluster.Scope{}, "shop", ""},
		"Limited":        {"A watch needs rights in its namespace alone.", limited, "shop", "shop"},
		"Cluster-scoped": {"It is in no namespace.", limited, "", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &Settings{Allowed: tc.scope}
			got := s.WatchKey(trigger.ObjectKey{Cluster: "there", GVR: fixture.ConfigMaps, Namespace: tc.namespace, Name: "a"})
			require.Equal(t, watchregistry.Key{Cluster: "there", GVR: fixture.ConfigMaps, Namespace: tc.want}, got, tc.reason)
		})
	}
}
