package remote

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// newSite starts one more control plane, with the right to restore it.
func newSite(t *testing.T) site {
	t.Helper()
	s := site{&suite.Cluster{}}
	t.Cleanup(func() { require.NoError(t, s.Stop()) })
	require.NoError(t, s.Start(t.Context(), testenv.Options{Out: os.Stderr}))
	return s
}

// age makes the versions of a cluster higher, by more than it writes while it starts.
func (s site) age(t *testing.T, namespace string) {
	t.Helper()
	cm := configMap(namespace, "age")
	require.NoError(t, client.IgnoreAlreadyExists(s.Admin.Create(t.Context(), cm)))
	for i := range 1500 {
		require.NoError(t, s.MergePatch(cm, `{"data":{"age":"%d"}}`, i))
	}
}

// TestRestoredCluster restores etcd of a destination from a snapshot, which is the cluster that another operator runs
// in, too. Both operators go on without a restart: what the snapshot has otherwise is reverted, and later edits are.
func TestRestoredCluster(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	require.NoError(t, s.Install(t.Context()))
	op, err := s.StartOperator(t.Context(), testenv.OperatorOptions{Binary: operatorBinary, Args: []string{"--kubeconfig-namespace=" + testenv.OperatorNamespace}})
	require.NoError(t, err)
	name := unique(t)
	s.MakeNamespace(t, name)
	t.Cleanup(func() { deleteKubeconfig(t, name) })
	config := rest.CopyConfig(s.Config)
	setKubeconfig(t, name, kubeconfig(t, config))

	newVidraResource(t, config.Host, name, manifests(greeting("changed", "one"), greeting("deleted", "one"), greeting("same", "one")))
	awaitReady(t, name)
	local := s.NewVidraResource(t, name, greeting("local", "one"), named(name+"-local"))
	s.AwaitReady(t, local.Name)
	require.NoError(t, s.Admin.Delete(t.Context(), configMap(name, "deleted"))) // its uid is another one from now on
	s.awaitSays(t, name, "deleted", "one")
	require.NoError(t, s.SaveEtcd(t.Context()))
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(op.Log)
			t.Logf("%s", text[max(0, len(text)-6000):])
		}
	})

	s.age(t, name)
	setManifest(t, name, manifests(greeting("changed", "two"), greeting("deleted", "two"), greeting("same", "one"), greeting("created", "two")))
	awaitReady(t, name)
	for _, object := range []string{"changed", "deleted", "created"} {
		s.awaitSays(t, name, object, "two")
	}
	require.NoError(t, s.Admin.Delete(t.Context(), configMap(name, "deleted")))
	s.awaitSays(t, name, "deleted", "two")
	require.NoError(t, s.MergePatch(configMap(name, "local"), `{"data":{"greeting":"mine"}}`))
	s.awaitSays(t, name, "local", "one")

	require.NoError(t, s.RestoreEtcd(t.Context()))
	began := time.Now()
	for _, object := range []string{"changed", "deleted", "created"} {
		s.awaitSays(t, name, object, "two")
	}
	t.Logf("the objects of the snapshot were reverted after %s", time.Since(began).Round(time.Millisecond))
	awaitReady(t, name)
	for i, object := range []string{"changed", "deleted", "created", "same"} {
		require.NoError(t, s.MergePatch(configMap(name, object), `{"data":{"greeting":"mine %d"}}`, i))
		s.awaitSays(t, name, object, map[bool]string{true: "one", false: "two"}[object == "same"])
	}
	require.NoError(t, s.MergePatch(configMap(name, "local"), `{"data":{"greeting":"mine again"}}`))
	s.awaitSays(t, name, "local", "one")
	s.SetManifest(t, local.Name, greeting("local", "two"))
	s.awaitSays(t, name, "local", "two")
	s.AwaitReady(t, local.Name)
	select {
	case <-op.Done():
		require.Fail(t, "the operator has ended")
	default:
	}
	remove(t, getVidraResource(t, name))
	s.AwaitGone(t, configMap(name, "created"))
}

// TestRestoredVidraResources restores etcd of the cluster that Vidra runs in, from a snapshot that is older than the process of the operator. VidraResources
// have former specs and generations then, and the next specs have generations that other specs had before.
func TestRestoredVidraResources(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	require.NoError(t, s.Install(t.Context()))
	start := func() *testenv.Operator {
		op, err := s.StartOperator(t.Context(), testenv.OperatorOptions{Binary: operatorBinary})
		require.NoError(t, err)
		return op
	}
	op := start()
	namespace := unique(t)
	s.MakeNamespace(t, namespace)
	former := s.NewVidraResource(t, namespace, greeting("former", "one"), named(namespace+"-former"))
	reused := s.NewVidraResource(t, namespace, manifests(greeting("reused", "one"), greeting("extra", "one")), named(namespace+"-reused"))
	deleted := s.NewVidraResource(t, namespace, greeting("deleted", "one"), named(namespace+"-deleted"))
	for _, name := range []string{former.Name, reused.Name, deleted.Name} {
		s.AwaitReady(t, name)
	}
	require.NoError(t, s.SaveEtcd(t.Context()))

	s.age(t, namespace)
	s.SetManifest(t, former.Name, greeting("former", "two"))
	s.SetManifest(t, reused.Name, greeting("reused", "two"))
	s.awaitSays(t, namespace, "former", "two")
	s.AwaitGone(t, configMap(namespace, "extra"))
	require.NoError(t, op.Stop(time.Minute))
	op = start()
	for _, name := range []string{former.Name, reused.Name} {
		s.AwaitReady(t, name)
	}
	require.NoError(t, s.MergePatch(configMap(namespace, "former"), `{"data":{"greeting":"mine"}}`))
	s.awaitSays(t, namespace, "former", "two")
	require.NoError(t, s.DeleteVidraResource(t.Context(), deleted.Name))
	s.AwaitGone(t, deleted)

	require.NoError(t, s.RestoreEtcd(t.Context()))
	s.SetManifest(t, reused.Name, manifests(greeting("reused", "three"), greeting("added", "three")))
	require.EqualValues(t, 2, s.GetVidraResource(t, reused.Name).Generation)
	s.awaitSays(t, namespace, "reused", "three")
	s.awaitSays(t, namespace, "added", "three")
	s.AwaitGone(t, configMap(namespace, "extra"))
	s.awaitSays(t, namespace, "former", "one")
	for _, object := range []string{"former", "deleted"} {
		require.NoError(t, s.MergePatch(configMap(namespace, object), `{"data":{"greeting":"mine again"}}`))
		s.awaitSays(t, namespace, object, "one")
	}
	for _, name := range []string{former.Name, reused.Name, deleted.Name} {
		s.AwaitReady(t, name)
	}
	select {
	case <-op.Done():
		require.Fail(t, "the operator has ended")
	default:
	}
}

// TestReplacedCluster has another cluster, with another CA, behind the URL of a destination. Connections to the first
// one stay open. From the change of the kubeconfig on, Vidra writes and watches the other cluster.
func TestReplacedCluster(t *testing.T) {
	t.Parallel()
	d, forwarder := newAccountDestination(t)
	setKubeconfig(t, d.name, kubeconfig(t, d.config))
	here.MakeNamespace(t, d.name)
	newVidraResource(t, d.url(), d.name, greeting("page", "hello"))
	awaitReady(t, d.name)

	require.NoError(t, forwarder.Redirect(here.Env))
	other := rest.CopyConfig(here.Config)
	other.Host = forwarder.URL
	setKubeconfig(t, d.name, kubeconfig(t, other))
	here.awaitSays(t, d.name, "page", "hello")
	awaitReady(t, d.name)
	for i := range 3 {
		here.edit(t, configMap(d.name, "page"), `{"data":{"greeting":"changed %d"}}`, i)
		here.awaitSays(t, d.name, "page", "hello")
	}
	there.edit(t, configMap(d.name, "page"), `{"data":{"greeting":"left alone"}}`)
	require.Never(t, func() bool { return there.says(t, d.name, "page") == "hello" }, 2*time.Second, 10*poll)
	remove(t, getVidraResource(t, d.name))
	here.AwaitGone(t, configMap(d.name, "page"))
}

// TestRevokedKubeconfig: no WATCH goes on after the Secret of a kubeconfig is deleted, is changed, or does not allow the
// namespace any more.
func TestRevokedKubeconfig(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		revoke func(t *testing.T, d destination)
	}{
		"deleted":  {"there are no credentials", func(t *testing.T, d destination) { deleteKubeconfig(t, d.name) }},
		"no label": {"the Secret is not for Vidra any more", func(t *testing.T, d destination) { here.edit(t, secretOf(d), `{"metadata":{"labels":null}}`) }},
		"unusable": {"it has no credentials", func(t *testing.T, d destination) { setKubeconfig(t, d.name, "apiVersion: v1") }},
		"forbidden": {"the namespace is not allowed", func(t *testing.T, d destination) {
			here.edit(t, secretOf(d), `{"metadata":{"annotations":{"vidraresource.infrahub.operators.com/allowed-namespaces":"other"}}}`)
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, proxy := newDestination(t)
			newVidraResource(t, d.url(), d.name, greeting("page", "hello"))
			awaitReady(t, d.name)
			configMaps := faultproxy.Match{Verb: "watch", Resource: corev1.SchemeGroupVersion.WithResource("configmaps")}
			await(t, func(c *assert.CollectT) { require.Equal(c, 1, proxy.Streams(configMaps)) })
			tt.revoke(t, d)
			await(t, func(c *assert.CollectT) { require.Zero(c, proxy.Streams(faultproxy.Match{Verb: "watch"}), tt.reason) })
			awaitUnreachable(t, d.name)
			there.edit(t, configMap(d.name, "page"), `{"data":{"greeting":"changed"}}`)
			require.NoError(t, client.IgnoreNotFound(here.Admin.Delete(t.Context(), secretOf(d))))
			setKubeconfig(t, d.name, kubeconfig(t, d.config))
			there.awaitSays(t, d.name, "page", "hello")
			awaitReady(t, d.name)
		})
	}
}

// secretOf names the Secret of a destination.
func secretOf(d destination) *corev1.Secret {
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = testenv.OperatorNamespace, d.name
	return secret
}

// TestOutageOfADestination has a destination away for a time in which another cluster may have come and
// gone. Every kind is listed once afterwards.
func TestOutageOfADestination(t *testing.T) {
	t.Parallel()
	d, proxy := newDestination(t)
	newVidraResource(t, d.url(), d.name, greeting("page", "hello"))
	awaitReady(t, d.name)
	configMaps := corev1.SchemeGroupVersion.WithResource("configmaps")
	mark := proxy.Mark()
	proxy.Down()
	awaitUnreachable(t, d.name)
	require.NoError(t, proxy.Up())
	awaitReady(t, d.name)
	await(t, func(c *assert.CollectT) {
		lists := 0
		for _, q := range proxy.Requests(mark, faultproxy.Match{Resource: configMaps}) {
			if q.Verb == "list" || q.Verb == "watch" && q.Query.Get("sendInitialEvents") == "true" {
				lists++
			}
		}
		require.Equal(c, 1, lists)
	})
}

// TestSlowWebhooks: a write that takes longer than a read may, as one does that waits for webhooks, succeeds.
func TestSlowWebhooks(t *testing.T) {
	t.Parallel()
	d, proxy := newDestination(t)
	slow := proxy.Inject(faultproxy.Match{Verb: "patch", Resource: corev1.SchemeGroupVersion.WithResource("configmaps")}, faultproxy.Delay(22*time.Second))
	newVidraResource(t, d.url(), d.name, greeting("page", "hello"))
	require.EventuallyWithT(t, func(c *assert.CollectT) { require.Equal(c, "hello", there.says(c, d.name, "page")) }, 2*patience, 10*poll)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		require.Equal(c, v1alpha1.DeploySucceeded, getVidraResource(c, d.name).Status.DeployState)
	}, 2*patience, 10*poll)
	require.LessOrEqual(t, slow.Hits(), 2, "it is not sent again and again")
	require.Empty(t, eventsAbout(t, getVidraResource(t, d.name), v1alpha1.ReasonApplyFailed))
}

// TestLargeKind has a kind in a destination without streamed lists whose objects need more memory than one answer may:
// it is read in pages, and the destination stays reachable.
func TestLargeKind(t *testing.T) {
	t.Parallel()
	d, proxy := newDestination(t)
	proxy.Inject(faultproxy.Match{Verb: "watch", Parameter: "sendInitialEvents"}, faultproxy.Status(apierrors.NewBadRequest("lists are not streamed here")))
	const many, keys = 120, 3000
	data := map[string]string{}
	for i := range keys { // a field of a manager needs more memory than text
		data[fmt.Sprintf("k%d", i)] = ""
	}
	for i := range many {
		cm := configMap(d.name, fmt.Sprintf("large-%d", i))
		cm.Labels, cm.Data = map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedByValue}, data
		require.NoError(t, there.Admin.Create(t.Context(), cm))
	}
	newVidraResource(t, d.url(), d.name, greeting("page", "hello"))
	awaitReady(t, d.name)
	there.edit(t, configMap(d.name, "page"), `{"data":{"greeting":"changed"}}`)
	there.awaitSays(t, d.name, "page", "hello")
	awaitReady(t, d.name)
	require.NotEmpty(t, proxy.Requests(0, faultproxy.Match{Verb: "list", Resource: corev1.SchemeGroupVersion.WithResource("configmaps"), Parameter: "continue"}))
	require.Empty(t, eventsAbout(t, getVidraResource(t, d.name), v1alpha1.ReasonDestinationUnreachable))
}
