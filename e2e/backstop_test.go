package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
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

// TestBackstop loses the events of a watch, and finds what they would have told with LISTs
// and a dry run. What a watch reports is not counted as found so, nor is that the inventory names
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

	fault := proxy.Inject(faultproxy.Match{Verb: "list", Resource: accounts.Resource}, faultproxy.Status(apierrors.NewInternalError(errors.New("no answer"))))
	await(t, func(c *assert.CollectT) { require.NotZero(c, metric(t, proxied, "vidra_backstop_failures_total")) })
	fault.Remove()
	require.NoError(t, mergePatch(account, `{"metadata":{"labels":{"team":"third"}}}`))
	awaitInOrder(t, ns, account) // the LIST that failed is repeated
	await(t, func(c *assert.CollectT) { require.Equal(c, 2, corrections(c)) })
}

// TestBackstopFindsLostEvents loses the events of all ConfigMaps, of which one is changed, one is deleted and one
// loses the label by which it is watched. Another one was changed, and its digest forged in the status, while
// the operator was stopped.
func TestBackstopFindsLostEvents(t *testing.T) {
	needsOwnControlPlane(t, faultsInjected)
	ns := newNamespace(t)
	manifest := manifests(configMap("forged", "hello"), configMap("edited", "hello"), configMap("deleted", "hello"), configMap("unlabelled", "hello"))
	newVidraResource(t, ns, manifest)
	awaitReady(t, ns)
	stopOperator(t)
	object := func(name string) *unstructured.Unstructured {
		return declaredObject(t, ns, manifest, "ConfigMap", name)
	}
	require.NoError(t, mergePatch(object("forged"), `{"data":{"greeting":"forged"}}`))
	v := getVidraResource(t, ns)
	digest, _ := ownership.Of(get(t, object("forged")), v1alpha1.FieldManager(ns))
	require.NotEqual(t, digest.String(), v.Status.ManagedResources[0].Digest)
	require.Equal(t, "forged", v.Status.ManagedResources[0].Name)
	v.Status.ManagedResources[0].Digest = digest.String()
	require.NoError(t, admin.Status().Update(t.Context(), v))

	proxy, proxied := startProxied(t, "--backstop-interval=2s")
	corrected := func(n int, names ...string) {
		for _, name := range names {
			awaitInOrder(t, ns, object(name))
		}
		await(t, func(c *assert.CollectT) { require.Equal(c, n, metric(c, proxied, "vidra_backstop_corrections_total")) })
	}
	corrected(1, "forged")
	configMaps := faultproxy.Match{Verb: "watch", Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}}
	require.NotZero(t, proxy.MuteStreams(configMaps))
	require.NoError(t, mergePatch(object("edited"), `{"data":{"greeting":"changed"}}`))
	require.NoError(t, admin.Delete(t.Context(), object("deleted")))
	require.NoError(t, mergePatch(object("unlabelled"), `{"metadata":{"labels":{"managed-by":null}}}`))
	corrected(4, "edited", "deleted", "unlabelled")
	for _, name := range []string{"forged", "edited", "deleted", "unlabelled"} {
		require.Contains(t, suite.LogOf(t, proxied), `"object":"ConfigMap `+ns+"/"+name+`"`, "the log names what the metric does not")
	}
}

// TestBackstopPages loses the events of objects that only the second page of a LIST has. The continue token of
// that page expires once, so that the LIST begins anew.
func TestBackstopPages(t *testing.T) {
	needsOwnControlPlane(t, faultsInjected)
	if !testenv.AtLeast(34) {
		t.Skip("the LISTs of the watches have pages, too, where the API server does not list with a WATCH")
	}
	stopOperator(t)
	proxy, proxied := startProxied(t, "--backstop-interval=2s")
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	early := proxy.Inject(faultproxy.Match{Verb: "list", Resource: configMaps, Parameter: "limit"}, // the LIST of few objects makes later pages larger
		faultproxy.Status(apierrors.NewInternalError(errors.New("no answer"))))
	ns := newNamespace(t)
	var documents []string
	for i := range 120 { // the first page has 100
		documents = append(documents, configMap(fmt.Sprintf("c-%03d", i), "hello"))
	}
	manifest := manifests(documents...)
	newVidraResource(t, ns, manifest)
	awaitReady(t, ns)

	expired := proxy.Inject(faultproxy.Match{Verb: "list", Resource: configMaps, Parameter: "continue"},
		faultproxy.Status(apierrors.NewResourceExpired("the continue token is too old")).Times(1))
	require.NotZero(t, proxy.MuteStreams(faultproxy.Match{Verb: "watch", Resource: configMaps}))
	edited, deleted := declaredObject(t, ns, manifest, "ConfigMap", "c-118"), declaredObject(t, ns, manifest, "ConfigMap", "c-119")
	require.NoError(t, mergePatch(edited, `{"data":{"greeting":"changed"}}`))
	require.NoError(t, admin.Delete(t.Context(), deleted.DeepCopy()))
	early.Remove()
	awaitInOrder(t, ns, edited, deleted)
	await(t, func(c *assert.CollectT) { require.Equal(c, 2, metric(c, proxied, "vidra_backstop_corrections_total")) })
	require.Equal(t, 1, expired.Hits())
}

// TestBackstopCost counts what the backstop takes for more objects than the first page has: LISTs in pages, of
// which the later ones are larger. No object is read or compared by a dry run, but for those whose digests the
// operator knows from the status alone, once.
func TestBackstopCost(t *testing.T) {
	needsOwnControlPlane(t, "it counts every request of the operator")
	stopOperator(t)
	ns := newNamespace(t)
	var documents []string
	const objects = 130
	for i := range objects {
		documents = append(documents, configMap(fmt.Sprintf("c-%03d", i), "hello"))
	}
	start := func() *testenv.Operator {
		started, err := env.StartOperator(t.Context(), testenv.OperatorOptions{Binary: operatorBinary, Args: []string{"--backstop-interval=2s"}})
		require.NoError(t, err)
		return started
	}
	running := start()
	t.Cleanup(func() { require.NoError(t, running.Stop(stopTimeout)) }) // it is needed until the VidraResource is gone
	newVidraResource(t, ns, manifests(documents...))
	awaitReady(t, ns)
	var mark testenv.AuditMark
	lists := func() requests {
		return operatorSince(t, mark).Only(func(r request) bool { return r.Verb == "list" && r.Resource == "configmaps" })
	}
	large := func(r request) bool { return r.Verb == "list" && strings.Contains(r.RequestURI, "limit=2000") }
	await(t, func(c *assert.CollectT) { // a page is large when it is known how much memory an object takes
		require.NotEmpty(c, lists().Only(large))
	})
	mark = auditMark(t)
	await(t, func(c *assert.CollectT) { require.GreaterOrEqual(c, len(lists()), 3) })
	sent := operatorSince(t, mark).Only(func(r request) bool { return r.Resource == "configmaps" && r.Verb != "watch" })
	t.Logf("%d objects at rest:\n%s", objects, sent)
	require.Len(t, sent.Only(large), len(sent), "%s", sent)

	require.NoError(t, running.Stop(stopTimeout))
	mark = auditMark(t)
	running = start()
	patches := func() requests {
		return operatorSince(t, mark).Only(func(r request) bool { return r.Resource == "configmaps" && r.Verb == "patch" })
	}
	await(t, func(c *assert.CollectT) { require.NotEmpty(c, patches()) }, "digests of the status are verified")
	await(t, func(c *assert.CollectT) { require.GreaterOrEqual(c, len(lists()), 4) })
	require.NotEmpty(t, lists().Only(func(r request) bool { return strings.Contains(r.RequestURI, "continue=") }), "the first page has 100 objects")
	verified := patches()
	require.Empty(t, verified.Writes(), "%s", verified)
	require.Less(t, len(verified), objects, "not all at once")
	names := map[string]bool{}
	for _, r := range verified {
		require.False(t, names[r.Name], "%s: each once", r.Name)
		names[r.Name] = true
	}
}
