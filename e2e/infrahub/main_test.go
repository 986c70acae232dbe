package main

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/infrahub/standin"
	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

var (
	cluster = &suite.Cluster{}
	// operator runs with the flags below. Tests that end it are not parallel.
	operator       *testenv.Operator
	operatorBinary string
	// webhooks is the address of the receiver, and keyFile has its key.
	webhooks, keyFile string
)

const (
	artifactName = "Webserver_Manifest"
	webhookKey   = "a shared key"
)

func TestMain(m *testing.M) {
	suite.Main(m, setUp, func() error { return cluster.Stop() })
}

func setUp(ctx context.Context) (err error) {
	if operatorBinary, err = suite.BuildOperator(ctx); err != nil {
		return err
	}
	if err := cluster.Start(ctx, testenv.Options{Out: os.Stderr}); err != nil {
		return err
	}
	if err := cluster.Install(ctx); err != nil {
		return err
	}
	port, err := testenv.FreePort()
	if err != nil {
		return err
	}
	webhooks = fmt.Sprintf("127.0.0.1:%d", port)
	keyFile = filepath.Join(cluster.Dir, "webhook.key")
	if err := os.WriteFile(keyFile, []byte("an older key\n"+webhookKey+"\n"), 0o600); err != nil {
		return err
	}
	return launch(ctx)
}

// launch starts the operator as its Deployment does, with the receiver of webhooks.
func launch(ctx context.Context, flags ...string) (err error) {
	operator, err = cluster.StartOperator(ctx, testenv.OperatorOptions{Binary: operatorBinary, Args: append([]string{
		"--infrahub-webhook-bind-address=" + webhooks, "--infrahub-webhook-key-file=" + keyFile,
	}, flags...)})
	return err
}

// hosts counts the loopback addresses that tests use: credentials belong to a host.
var hosts atomic.Int32

// lab is an Infrahub server of one test, with an InfrahubSync of it.
type lab struct {
	*standin.Server
	t   *testing.T
	url string
	// host is that of url, and ns has the Secret with the credentials and the objects.
	host, ns string
}

// newLab starts a server with credentials for it.
func newLab(t *testing.T, o standin.Options) *lab {
	t.Helper()
	l := &lab{Server: standin.New(o), t: t, ns: cluster.NewNamespace(t)}
	l.host = fmt.Sprintf("127.1.%d.%d", hosts.Add(1), os.Getpid()%200+2)
	listener, err := net.Listen("tcp", l.host+":0")
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(l.Server)
	require.NoError(t, server.Listener.Close())
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	l.url = server.URL
	return l
}

// credentials makes the Secret with the credentials.
func (l *lab) credentials(data map[string]string) *corev1.Secret {
	l.t.Helper()
	if data == nil {
		data = map[string]string{"username": "admin", "password": "infrahub"}
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "infrahub-credentials", Labels: map[string]string{v1alpha1.InfrahubURLLabel: l.host}}, StringData: data,
	}
	require.NoError(l.t, cluster.Admin.Create(l.t.Context(), secret))
	return secret
}

// sync makes an InfrahubSync of the server with the name of the namespace. Its interval is so long that what happens in a test
// is caused by an event.
func (l *lab) sync(options ...func(*v1alpha1.InfrahubSync)) *v1alpha1.InfrahubSync {
	l.t.Helper()
	is := &v1alpha1.InfrahubSync{
		ObjectMeta: metav1.ObjectMeta{Name: l.ns},
		Spec: v1alpha1.InfrahubSyncSpec{
			Source:      v1alpha1.InfrahubSyncSource{InfrahubAPIURL: l.url, TargetBranch: "main", ArtifactName: artifactName},
			Destination: v1alpha1.InfrahubSyncDestination{Namespace: l.ns, ReconcileOnEvents: true},
			Interval:    &metav1.Duration{Duration: time.Hour},
		},
	}
	for _, option := range options {
		option(is)
	}
	require.NoError(l.t, cluster.Admin.Create(l.t.Context(), is))
	l.t.Cleanup(func() { _ = cluster.Admin.Delete(context.Background(), is) })
	return is
}

// id returns the id of an artifact of the test: that of a VidraResource is unique in the cluster.
func (l *lab) id(name string) string { return l.ns + "-" + name }

// artifact is an artifact with a ConfigMap.
func (l *lab) artifact(name, greeting string) standin.Artifact {
	return standin.Artifact{ID: l.id(name), Name: artifactName, Branch: "main", Content: suite.Greeting(name, greeting)}
}

// get reads the InfrahubSync.
func (l *lab) get(t require.TestingT) *v1alpha1.InfrahubSync {
	is := &v1alpha1.InfrahubSync{}
	require.NoError(t, cluster.Admin.Get(context.Background(), client.ObjectKey{Name: l.ns}, is))
	return is
}

// request requests a sync and waits for it.
func (l *lab) request() *v1alpha1.InfrahubSync {
	l.t.Helper()
	at := time.Now().Format(time.RFC3339Nano)
	is := l.get(l.t)
	require.NoError(l.t, cluster.MergePatch(is, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.SyncRequestedAtAnnotation, at))
	suite.Await(l.t, func(c *assert.CollectT) {
		is = l.get(c)
		require.Equal(c, at, is.Status.LastHandledSyncAt)
	})
	return is
}

// await waits until Ready has a reason, and a message with parts.
func (l *lab) await(reason string, parts ...string) (is *v1alpha1.InfrahubSync) {
	l.t.Helper()
	suite.Await(l.t, func(c *assert.CollectT) {
		is = l.get(c)
		ready := meta.FindStatusCondition(is.Status.Conditions, v1alpha1.ConditionReady)
		require.NotNil(c, ready)
		require.Equal(c, reason, ready.Reason, ready.Message)
		require.Equal(c, is.Generation, ready.ObservedGeneration)
		for _, part := range parts {
			require.Contains(c, ready.Message, part)
		}
	})
	return is
}

// resources returns the VidraResources that the InfrahubSync controls, by name.
func (l *lab) resources(t require.TestingT) map[string]*v1alpha1.VidraResource {
	is, list, found := l.get(t), &v1alpha1.VidraResourceList{}, map[string]*v1alpha1.VidraResource{}
	require.NoError(t, cluster.Admin.List(context.Background(), list))
	for i := range list.Items {
		if vr := &list.Items[i]; metav1.IsControlledBy(vr, is) && vr.DeletionTimestamp.IsZero() {
			found[vr.Name] = vr
		}
	}
	return found
}

// requireResources requires that the VidraResources are those of artifacts.
func (l *lab) requireResources(t require.TestingT, names ...string) {
	want := make([]string, 0, len(names))
	for _, name := range names {
		want = append(want, l.id(name))
	}
	require.ElementsMatch(t, want, slices.Collect(maps.Keys(l.resources(t))))
}

// awaitResources waits until the VidraResources are those of artifacts.
func (l *lab) awaitResources(names ...string) {
	l.t.Helper()
	suite.Await(l.t, func(c *assert.CollectT) { l.requireResources(c, names...) })
}

// awaitGreeting waits until the ConfigMap of an artifact has a greeting.
func (l *lab) awaitGreeting(name, greeting string) *unstructured.Unstructured {
	l.t.Helper()
	var live *unstructured.Unstructured
	suite.Await(l.t, func(c *assert.CollectT) {
		live = cluster.Get(c, configMap(l.ns, name))
		is, _, _ := unstructured.NestedString(live.Object, "data", "greeting")
		require.Equal(c, greeting, is)
	})
	return live
}

func configMap(ns, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
}

// always answers each request for a path with the same.
func always(prefix string, status int, header http.Header, body string) func(w http.ResponseWriter, r *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if len(r.URL.Path) < len(prefix) || r.URL.Path[:len(prefix)] != prefix {
			return false
		}
		maps.Copy(w.Header(), header)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
		return true
	}
}

func keyOf(obj client.Object) client.ObjectKey { return client.ObjectKeyFromObject(obj) }
