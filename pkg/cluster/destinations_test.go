package cluster

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

func TestGetIsPermanent(t *testing.T) {
	t.Parallel()
	d := NewDestinations(DestinationsOptions{})
	require.Nil(t, d.Find("https://example.com"), "nobody has asked for it")
	c, err := d.Get("HTTPS://Example.com:443/")
	require.NoError(t, err)
	require.Equal(t, "https://example.com", c.Name())
	require.Same(t, c, d.Find("https://EXAMPLE.com"))
	require.Nil(t, d.Find("example.com"))
	again, err := d.Get("https://example.com")
	require.NoError(t, err)
	require.Same(t, c, again)
	require.ErrorIs(t, c.Unreachable(), ErrStarting, "Start has not been called")
	require.ErrorIs(t, get(t, c.Dynamic()), ErrStarting, "a request fails at once")

	_, err = d.Get("example.com")
	require.ErrorContains(t, err, "https://host:port")

	d.Forget("https://EXAMPLE.com/")
	require.Nil(t, d.Find("https://example.com"))
	require.ErrorIs(t, c.Unreachable(), errForgotten)
	require.ErrorIs(t, get(t, c.Dynamic()), errForgotten)
	another, err := d.Get("https://example.com")
	require.NoError(t, err)
	require.NotSame(t, c, another)
	require.ErrorIs(t, another.Unreachable(), ErrStarting)
}

// TestGetBeforeStart: the Secrets are read, and it is told, once Start is called.
func TestGetBeforeStart(t *testing.T) {
	t.Parallel()
	server := newServer(t, func(w http.ResponseWriter, _ *http.Request) { answer(w) })
	secrets := &secretsOf{}
	secrets.put("s", kubeconfigFor(t, server, "", confidential))
	o := &told{t: t}
	d := NewDestinations(DestinationsOptions{OnChange: o.onChange})
	d.secrets.source = secrets
	c, err := d.Get(server.URL)
	require.NoError(t, err)
	start(t, d)
	awaitReachable(t, c)
	await(t, func(ct *assert.CollectT) { assert.Equal(ct, 1, o.times()) })
	require.NoError(t, get(t, c.Dynamic()))
}

// TestSecretsComeAndGo follows what Unreachable says.
func TestSecretsComeAndGo(t *testing.T) {
	t.Parallel()
	server := newServer(t, func(w http.ResponseWriter, _ *http.Request) { answer(w) })
	secrets := &secretsOf{}
	secrets.put("broken", "{"+confidential)
	d, o := newDestinations(t, secrets)
	c, err := d.Get(server.URL)
	require.NoError(t, err)
	says := func(text string) {
		t.Helper()
		await(t, func(ct *assert.CollectT) { assert.ErrorContains(ct, c.Unreachable(), text) })
		require.NotContains(t, c.Unreachable().Error(), confidential)
		require.ErrorContains(t, get(t, c.Dynamic()), text, "a request fails for the same reason")
	}
	says("no Secret with the label cluster-kubeconfig in any namespace has a kubeconfig for " + server.URL)
	says("default/broken (it holds no kubeconfig")

	secrets.put("a", kubeconfigFor(t, server, "", confidential))
	awaitReachable(t, c)
	require.NoError(t, get(t, c.Dynamic()))
	secrets.put("b", kubeconfigFor(t, server, "", confidential))
	says("default/a, default/b")
	await(t, func(ct *assert.CollectT) { assert.Positive(ct, o.times()) }) // the first Secrets may be read before anybody asks
	secrets.remove("a")
	awaitReachable(t, c)
	secrets.remove("b")
	says("no Secret")
	before := o.times()
	secrets.put("other", kubeconfigFor(t, httptest.NewUnstartedServer(nil), "https://other", confidential))
	late, err := d.Get("https://yet-another")
	require.NoError(t, err)
	await(t, func(ct *assert.CollectT) { assert.ErrorContains(ct, late.Unreachable(), "no Secret") })
	require.Equal(t, before, o.times(), "nothing has changed for who was told")
}

// TestPathOfTheKubeconfigCounts: the URL of the kubeconfig is the one that is used.
func TestPathOfTheKubeconfigCounts(t *testing.T) {
	t.Parallel()
	var path atomic.Value
	server := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		path.Store(r.URL.EscapedPath() + " " + r.Host)
		answer(w)
	})
	for from, at := range map[string]string{"": "/k8s/a%2Fb", "/k8s/x": "/k8s/x", "/y/": ""} {
		secrets := &secretsOf{}
		secrets.put("s", kubeconfigFor(t, server, at, confidential))
		d, _ := newDestinations(t, secrets)
		c, err := d.Get(server.URL + from)
		require.NoError(t, err)
		awaitReachable(t, c)
		require.NoError(t, get(t, c.Dynamic()))
		require.Equal(t, at+"/api/v1/namespaces/default/configmaps/x "+server.Listener.Addr().String(), path.Load())
	}
}

// TestRedirectsAreNotFollowed: credentials are for the API server alone.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	requests := atomic.Int32{}
	server := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	})
	secrets := &secretsOf{}
	secrets.put("s", kubeconfigFor(t, server, "", confidential))
	d, _ := newDestinations(t, secrets)
	c, err := d.Get(server.URL)
	require.NoError(t, err)
	awaitReachable(t, c)
	require.Error(t, get(t, c.Dynamic()))
	require.EqualValues(t, 1, requests.Load())
}

// TestRemotesAreFrankToo: as with the local cluster, who lists is told of throttling.
func TestRemotesAreFrankToo(t *testing.T) {
	t.Parallel()
	server := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "30")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, "Too many requests, please try again later.")
	})
	secrets := &secretsOf{}
	secrets.put("s", kubeconfigFor(t, server, "", confidential))
	d, _ := newDestinations(t, secrets)
	c, err := d.Get(server.URL)
	require.NoError(t, err)
	awaitReachable(t, c)
	_, err = c.Dynamic().Resource(configMaps).List(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
	requireThrottled(t, err)
	require.NoError(t, c.Unreachable())
}

// TestImpersonation has the local and a remote cluster asked as somebody.
func TestImpersonation(t *testing.T) {
	t.Parallel()
	headers := make(chan http.Header, 1)
	server := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		headers <- r.Header
		answer(w)
	})
	secrets := &secretsOf{}
	secrets.put("s", kubeconfigFor(t, server, "", "t0ken"))
	d, _ := newDestinations(t, secrets)
	remote, err := d.Get(server.URL)
	require.NoError(t, err)
	awaitReachable(t, remote)
	local, err := New(&rest.Config{
		Host: server.URL, BearerToken: "t0ken", TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	})
	require.NoError(t, err)
	t.Cleanup(local.http.CloseIdleConnections)
	require.Empty(t, local.Name())
	require.NoError(t, local.Unreachable())
	for name, c := range map[string]*Cluster{"local": local, "remote": remote} {
		const user = "system:serviceaccount:ns:sa"
		as, err := c.As(user)
		require.NoError(t, err)
		require.NoError(t, get(t, as))
		got := <-headers
		require.Equal(t, user, got.Get("Impersonate-User"), name)
		require.Equal(t, "Bearer t0ken", got.Get("Authorization"), name)
		require.NoError(t, get(t, c.Dynamic()))
		require.Empty(t, (<-headers).Get("Impersonate-User"), name)
		_, err = c.As("")
		require.ErrorContains(t, err, "empty", "which would be nobody else")
	}
}

// TestForgetEndsEverything is not parallel: it counts goroutines.
func TestForgetEndsEverything(t *testing.T) {
	secrets := &secretsOf{}
	d, _ := newDestinations(t, secrets)
	_, err := d.Get("https://nobody.example") // has the Secrets read
	require.NoError(t, err)
	down := atomic.Bool{}
	server := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("watch") {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		if down.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		answer(w)
	})
	secrets.put("s", kubeconfigFor(t, server, "", confidential))
	await(t, func(ct *assert.CollectT) {
		sources, _ := d.secrets.sources()
		if assert.NotNil(ct, sources) {
			assert.Len(ct, sources.all, 1)
		}
		secrets.mu.Lock()
		defer secrets.mu.Unlock()
		assert.NotEmpty(ct, secrets.watchers, "the informer has begun all that it runs")
	})
	before := goleak.IgnoreCurrent()

	c, err := d.Get(server.URL)
	require.NoError(t, err)
	require.NoError(t, get(t, c.Dynamic()))
	stream, err := c.Dynamic().Resource(configMaps).Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	down.Store(true)
	require.Error(t, get(t, c.Dynamic()))
	await(t, func(ct *assert.CollectT) { assert.ErrorContains(ct, c.Unreachable(), "it answers 502") })
	d.Forget(server.URL)
	for range stream.ResultChan() { // until it ends
	}
	goleak.VerifyNone(t, before)
	require.NoError(t, d.ctx.Err(), "the others go on")
}

// TestStartEndsEverything: a manager waits for Start alone.
func TestStartEndsEverything(t *testing.T) {
	before := goleak.IgnoreCurrent()
	secrets := &secretsOf{}
	server := newServer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	secrets.put("s", kubeconfigFor(t, server, "", confidential))
	d := NewDestinations(DestinationsOptions{})
	d.secrets.source = secrets
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- d.Start(ctx) }()
	c, err := d.Get(server.URL)
	require.NoError(t, err)
	awaitReachable(t, c)
	require.Error(t, get(t, c.Dynamic()))
	cancel()
	require.NoError(t, <-ended)
	require.ErrorIs(t, c.Unreachable(), errForgotten)
	late, err := d.Get("https://late.example")
	require.NoError(t, err)
	require.ErrorIs(t, late.Unreachable(), errForgotten)
	server.CloseClientConnections()
	server.Close()
	goleak.VerifyNone(t, before)
}

// TestReadOnce: a program that ends soon reads the Secrets without Start, and later ones are not known.
func TestReadOnce(t *testing.T) {
	t.Parallel()
	server := newServer(t, func(w http.ResponseWriter, _ *http.Request) { answer(w) })
	secrets := &secretsOf{}
	secrets.put("s", kubeconfigFor(t, server, "", confidential))
	d := NewDestinations(DestinationsOptions{})
	d.secrets.source = secrets
	c, err := d.Get(server.URL)
	require.NoError(t, err)
	require.ErrorIs(t, c.Unreachable(), ErrStarting)
	require.NoError(t, d.ReadOnce(t.Context()))
	require.NoError(t, c.Unreachable())
	require.NoError(t, get(t, c.Dynamic()))
	_, matched, err := d.Resolve("https://other.example")
	require.NoError(t, err)
	require.False(t, matched)
	other, err := d.Get("https://other.example")
	require.NoError(t, err)
	require.ErrorContains(t, other.Unreachable(), "no Secret with the label")
	d.Forget(server.URL)
	d.Forget("https://other.example")
}
