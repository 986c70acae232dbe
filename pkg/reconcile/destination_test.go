package reconcile

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/cluster"
)

// TestIsAway asks for clusters when there is no place for another pass.
func TestIsAway(t *testing.T) {
	const server = "https://example.com:6443"
	r := &Reconciler{}
	require.True(t, r.destinations().IsAway(server), "none can be reached")
	r.Remotes = cluster.NewDestinations(cluster.DestinationsOptions{})
	require.False(t, r.destinations().IsAway(server), "nothing is known of it")
	require.Nil(t, r.Remotes.Find(server), "and it is not made known: nobody would forget it")
	_, err := r.Remotes.Get(server)
	require.NoError(t, err)
	require.True(t, r.destinations().IsAway(server), "there is no kubeconfig")
}
