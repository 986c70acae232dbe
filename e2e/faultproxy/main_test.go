package faultproxy

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

const (
	wait30 = 30 * time.Second
	poll   = 10 * time.Millisecond
)

var (
	// env is the control plane of this test binary.
	env *testenv.Env

	configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")
	secrets    = corev1.SchemeGroupVersion.WithResource("secrets")
)

func TestMain(m *testing.M) {
	os.Exit(testenv.RunTests(m, func(ctx context.Context) (err error) {
		env, err = testenv.Start(ctx, testenv.Options{Out: os.Stderr})
		return err
	}, func() error { return env.Stop() }))
}

// start starts a proxy that ends with the test.
func start(t *testing.T) *Proxy {
	t.Helper()
	p, err := Start(env.Config)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// through returns a client that goes through the proxy.
func through(t *testing.T, p *Proxy) dynamic.Interface {
	t.Helper()
	c, err := dynamic.NewForConfig(p.Config())
	require.NoError(t, err)
	return c
}

// namespace makes a namespace without the proxy and returns its name. It holds
// no ConfigMap but the one that every namespace gets.
func namespace(t *testing.T) string {
	t.Helper()
	c := direct(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "faultproxy-"}}
	ns, err := c.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{})
	require.NoError(t, err)
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		_, err := c.CoreV1().ConfigMaps(ns.Name).Get(context.Background(), "kube-root-ca.crt", metav1.GetOptions{})
		require.NoError(t, err)
	}, wait30, poll)
	return ns.Name
}

// direct returns a client that does not go through a proxy.
func direct(t *testing.T) kubernetes.Interface {
	t.Helper()
	c, err := kubernetes.NewForConfig(env.Config)
	require.NoError(t, err)
	return c
}

// configMap returns a ConfigMap that is not on the server.
func configMap(namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("v1")
	u.SetKind("ConfigMap")
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// createDirect makes a ConfigMap without the proxy.
func createDirect(t *testing.T, namespace, name string) {
	t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := direct(t).CoreV1().ConfigMaps(namespace).Create(t.Context(), cm, metav1.CreateOptions{})
	require.NoError(t, err)
}

// watchNew watches the ConfigMaps of a namespace, from now on.
func watchNew(t *testing.T, c dynamic.Interface, namespace string) watch.Interface {
	t.Helper()
	list, err := c.Resource(configMaps).Namespace(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	w, err := c.Resource(configMaps).Namespace(namespace).Watch(t.Context(), metav1.ListOptions{
		ResourceVersion: list.GetResourceVersion(),
	})
	require.NoError(t, err)
	t.Cleanup(w.Stop)
	return w
}

// next returns the next event of a watch; ok is false when the watch has ended.
func next(t *testing.T, w watch.Interface) (event watch.Event, ok bool) {
	t.Helper()
	select {
	case event, ok = <-w.ResultChan():
		return event, ok
	case <-time.After(wait30):
		require.FailNow(t, "the watch has neither an event nor an end")
		return watch.Event{}, false
	}
}

// nextChange is the next event of a watch that is no bookmark: the API server sends bookmarks at any time.
func nextChange(t *testing.T, w watch.Interface) (event watch.Event, ok bool) {
	t.Helper()
	for event, ok = next(t, w); ok && event.Type == watch.Bookmark; {
		event, ok = next(t, w)
	}
	return event, ok
}

// requireAdded requires that the next event says that an object came to be.
func requireAdded(t *testing.T, w watch.Interface, name string) {
	t.Helper()
	event, ok := nextChange(t, w)
	require.True(t, ok, "the watch goes on")
	require.Equal(t, watch.Added, event.Type, "%v", event.Object)
	object, ok := event.Object.(metav1.Object)
	require.True(t, ok)
	require.Equal(t, name, object.GetName())
}

// requireClosed requires that the watch ends in order, without another event.
func requireClosed(t *testing.T, w watch.Interface) {
	t.Helper()
	event, ok := nextChange(t, w)
	require.False(t, ok, "%v", event)
}

// requireCut requires that the watch ends with an error of the connection.
func requireCut(t *testing.T, w watch.Interface) {
	t.Helper()
	event, ok := nextChange(t, w)
	require.True(t, ok, "a client learns that the stream is broken")
	require.Equal(t, watch.Error, event.Type)
	status, ok := event.Object.(*metav1.Status)
	require.True(t, ok)
	require.Contains(t, status.Message, "stream error")
	requireClosed(t, w)
}
