package e2e

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/testenv"
)

// startProxied starts an operator that reaches the API server through a proxy. The shared
// one must have been stopped.
func startProxied(t *testing.T, args ...string) (*faultproxy.Proxy, *testenv.Operator) {
	t.Helper()
	proxy, err := faultproxy.Start(env.Config)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	proxied, err := env.StartOperator(t.Context(), testenv.OperatorOptions{Binary: operatorBinary, Config: proxy.Config(), Args: args})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxied.Stop(stopTimeout)) })
	return proxy, proxied
}

// TestBackstop loses the events of a watch, and finds what they would have told with a
// dry run. What a watch reports is not counted as found so, nor is that the inventory names
// an object that was created again since: the operator that did so may have been killed
// before it wrote that.
func TestBackstop(t *testing.T) {
	needsOwnControlPlane(t, faultsInjected)
	again := newNamespace(t)
	newVidraResource(t, again, configMap("again", "hello"))
	awaitReady(t, again)
	stopOperator(t)
	v := getVidraResource(t, again)
	uid := entry(t, v, "ConfigMap", "again").UID
	v.Status.ManagedResources[0].UID = "0b5c1f5e-0000-4000-8000-000000000000"
	require.NoError(t, admin.Status().Update(t.Context(), v))

	proxy, proxied := startProxied(t, "--backstop-interval=2s")
	await(t, func(c *assert.CollectT) {
		require.Equal(c, uid, entry(t, getVidraResource(c, again), "ConfigMap", "again").UID)
	})
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

	fault := proxy.Inject(faultproxy.Match{Verb: "get", Resource: accounts.Resource}, faultproxy.Status(apierrors.NewInternalError(errors.New("no answer"))))
	await(t, func(c *assert.CollectT) { require.NotZero(c, metric(t, proxied, "vidra_backstop_failures_total")) })
	fault.Remove()
}
