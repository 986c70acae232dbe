package cluster

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// TestMain has no test leave a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	awaitTimeout = 20 * time.Second
	awaitTick    = 5 * time.Millisecond
	// confidential is in every credential: no error may have it.
	confidential = "s3cr3t"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// await waits until check holds.
func await(t *testing.T, check func(c *assert.CollectT)) {
	t.Helper()
	require.EventuallyWithT(t, check, awaitTimeout, awaitTick)
}

// secretsOf is a cache.ListerWatcher of Secrets that a test puts in and takes out.
type secretsOf struct {
	mu       sync.Mutex
	present  []corev1.Secret
	history  []watch.Event
	watchers []*watch.RaceFreeFakeWatcher
}

// IsWatchListSemanticsUnSupported has the reflector list before it watches.
func (s *secretsOf) IsWatchListSemanticsUnSupported() bool { return true }

// List implements cache.Lister.
func (s *secretsOf) List(metav1.ListOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	version := strconv.Itoa(len(s.history))
	return &corev1.SecretList{ListMeta: metav1.ListMeta{ResourceVersion: version}, Items: slices.Clone(s.present)}, nil
}

// Watch implements cache.Watcher.
func (s *secretsOf) Watch(opts metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, err := strconv.Atoi(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	w := watch.NewRaceFreeFake()
	for _, event := range s.history[seen:] {
		w.Action(event.Type, event.Object)
	}
	s.watchers = append(s.watchers, w)
	return w, nil
}

// put creates or changes a Secret with a kubeconfig.
func (s *secretsOf) put(name, kubeconfig string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what := watch.Added
	if i := s.index(name); i >= 0 {
		what = watch.Modified
		s.present = slices.Delete(s.present, i, i+1)
	}
	secret := corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, ResourceVersion: strconv.Itoa(len(s.history) + 1)},
		Data:       map[string][]byte{"kubeconfig": []byte(kubeconfig)},
	}
	s.present = append(s.present, secret)
	s.tell(what, &secret)
}

// remove deletes a Secret.
func (s *secretsOf) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.index(name)
	secret := s.present[i]
	secret.ResourceVersion = strconv.Itoa(len(s.history) + 1)
	s.present = slices.Delete(s.present, i, i+1)
	s.tell(watch.Deleted, &secret)
}

func (s *secretsOf) index(name string) int {
	return slices.IndexFunc(s.present, func(secret corev1.Secret) bool { return secret.Name == name })
}

func (s *secretsOf) tell(what watch.EventType, secret *corev1.Secret) {
	s.history = append(s.history, watch.Event{Type: what, Object: secret})
	for _, w := range s.watchers {
		w.Action(what, secret.DeepCopy())
	}
}

// told collects what OnChange is called with.
type told struct {
	mu      sync.Mutex
	servers []string
	inside  bool
	t       *testing.T
}

func (o *told) onChange(server string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.inside {
		o.t.Error("two calls at a time")
	}
	o.inside = true
	o.servers = append(o.servers, server)
	o.inside = false
}

func (o *told) times() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.servers)
}

// newDestinations makes Destinations that read secrets, with short limits, and starts
// them until the end of the test.
func newDestinations(t *testing.T, secrets *secretsOf) (*Destinations, *told) {
	t.Helper()
	o := &told{t: t}
	d := NewDestinations(DestinationsOptions{OnChange: o.onChange, AllowInsecure: true, AllowProxies: true})
	d.secrets.source = secrets
	d.limits.confirm = 20 * time.Millisecond
	d.limits.backoff.Duration, d.limits.backoff.Cap = 10*time.Millisecond, 20*time.Millisecond
	start(t, d)
	return d, o
}

// start runs Destinations until the end of the test.
func start(t *testing.T, d *Destinations) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
}

// awaitReachable waits until a cluster has a kubeconfig and answers.
func awaitReachable(t *testing.T, c *Cluster) {
	t.Helper()
	await(t, func(ct *assert.CollectT) { require.NoError(ct, c.Unreachable()) })
}

// kubeconfigFor is the text of a kubeconfig for a test server.
func kubeconfigFor(t *testing.T, server *httptest.Server, path, token string) string {
	t.Helper()
	cluster := &clientcmdapi.Cluster{Server: server.URL + path}
	if certificate := server.Certificate(); certificate != nil {
		cluster.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
	}
	return write(t, one(cluster, &clientcmdapi.AuthInfo{Token: token}))
}

// one is a kubeconfig with one context, the current one.
func one(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) clientcmdapi.Config {
	return clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": cluster},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": user},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}
}

func write(t *testing.T, config clientcmdapi.Config) string {
	t.Helper()
	text, err := clientcmd.Write(config)
	require.NoError(t, err)
	return string(text)
}

// newServer is a test server with TLS that is closed, with its connections, at the end
// of the test.
func newServer(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = quiet()
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server
}

// answer answers any request with an object.
func answer(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprint(w, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"default"}}`)
}

// get sends a request.
func get(t *testing.T, client dynamic.Interface) error {
	t.Helper()
	_, err := client.Resource(configMaps).Namespace("default").Get(t.Context(), "x", metav1.GetOptions{})
	return err
}

// quiet is a log for what a test server says of what is done to it.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
