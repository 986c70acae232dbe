package reconcile

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestIsAway asks for clusters when there is no place for another pass.
func TestIsAway(t *testing.T) {
	const server = "https://example.com:6443"
	r := &Reconciler{}
	require.True(t, r.Clusters.IsAway(server), "none can be reached")
	r.Clusters.Remotes = cluster.NewDestinations(cluster.DestinationsOptions{})
	require.False(t, r.Clusters.IsAway(server), "nothing is known of it")
	require.Nil(t, r.Clusters.Remotes.Find(server), "and it is not made known: nobody would forget it")
	_, err := r.Clusters.Remotes.Get(server)
	require.NoError(t, err)
	require.True(t, r.Clusters.IsAway(server), "there is no kubeconfig")
}

// TestLocalAfterRemote: a VidraResource of the local cluster has nothing of the remote one of its name that was gone without a reconcile.
func TestLocalAfterRemote(t *testing.T) {
	t.Parallel()
	const server = "https://example.com:6443"
	l := newLab(t, colors("a"))
	l.Clusters.Remotes = cluster.NewDestinations(cluster.DestinationsOptions{})
	_, _, err := l.Clusters.Find(faulty, server)
	require.NoError(t, err)
	require.Equal(t, server, l.Clusters.Index.Of(faulty))
	p := l.newPass(faulty, l.get(t), trigger.Causes{}, seal.Keys{seal.NewKey()})
	defer p.state.lane.leave()
	require.Nil(t, p.connect(t.Context()))
	require.Empty(t, l.Clusters.Index.Of(faulty), "places and Events are those of the local cluster")
	require.Nil(t, l.Clusters.Remotes.Find(server), "it is forgotten with its last VidraResource")
}
