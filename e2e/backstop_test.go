package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/testenv"
)

// startProxied stops the shared operator and starts one that reaches the API server
// through a proxy.
func startProxied(t *testing.T, args ...string) (*faultproxy.Proxy, *testenv.Operator) {
	t.Helper()
	stopOperator(t)
	proxy, err := faultproxy.Start(env.Config)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	proxied, err := env.StartOperator(t.Context(), testenv.OperatorOptions{Binary: operatorBinary, Config: proxy.Config(), Args: args})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxied.Stop(stopTimeout)) })
	return proxy, proxied
}

// TestBackstop loses the events of a watch, and finds what they would have told with a
// dry run. What a watch tells is not counted as found so.
func TestBackstop(t *testing.T) {
	proxy, proxied := startProxied(t, "--backstop-interval=2s")
	ns := newNamespace(t)
	manifest := manifests(configMap("c", "hello"), "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: account\n  labels: {team: web}\n")
	newVidraResource(t, ns, manifest)
	awaitReady(t, ns)
	account := declaredObject(t, ns, manifest, "ServiceAccount", "account")
	settings := declaredObject(t, ns, manifest, "ConfigMap", "c")
	for i := range 20 {
		require.NoError(t, mergePatch(settings, `{"data":{"greeting":"changed %d"}}`, i))
		awaitInOrder(t, ns, settings)
	}
	corrections := func(t require.TestingT) int { return metric(t, proxied, "vidra_backstop_corrections_total") }
	require.Zero(t, corrections(t))

	accounts := faultproxy.Match{Verb: "watch", Resource: schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}}
	require.NotZero(t, proxy.MuteStreams(accounts))
	require.NoError(t, mergePatch(account, `{"metadata":{"labels":{"team":"other"}}}`))
	awaitInOrder(t, ns, account)
	await(t, func(c *assert.CollectT) { require.Equal(c, 1, corrections(c)) })
	require.NoError(t, mergePatch(settings, `{"data":{"greeting":"changed"}}`))
	awaitInOrder(t, ns, settings)
	require.Equal(t, 1, corrections(t))
}
