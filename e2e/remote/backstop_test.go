package remote

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/suite"
)

// TestBackstopOfADestination loses the events of a watch in another cluster: the backstop finds what was edited and
// what was deleted there.
func TestBackstopOfADestination(t *testing.T) {
	d, proxy := newDestination(t)
	suite.Kill(t, operator)
	require.NoError(t, launch(t.Context(), "--backstop-interval=2s"))
	t.Cleanup(func() {
		suite.Kill(t, operator)
		require.NoError(t, launch(context.Background()))
	})
	newVidraResource(t, d.url(), d.name, manifests(greeting("edited", "hello"), greeting("deleted", "hello")))
	awaitReady(t, d.name)
	configMaps := corev1.SchemeGroupVersion.WithResource("configmaps")
	require.NotZero(t, proxy.MuteStreams(faultproxy.Match{Verb: "watch", Resource: configMaps}))
	there.edit(t, configMap(d.name, "edited"), `{"data":{"greeting":"changed"}}`)
	require.NoError(t, there.Admin.Delete(t.Context(), configMap(d.name, "deleted")))
	there.awaitSays(t, d.name, "edited", "hello")
	there.awaitSays(t, d.name, "deleted", "hello")
}
