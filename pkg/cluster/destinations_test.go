package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestGetIsPermanent(t *testing.T) {
	t.Parallel()
	d := NewDestinations(DestinationsOptions{})
	c, err := d.Get("HTTPS://Example.com:443/")
	require.NoError(t, err)
	require.Equal(t, "https://example.com", c.Name())
	again, err := d.Get("https://example.com")
	require.NoError(t, err)
	require.Same(t, c, again)
	require.ErrorIs(t, c.Unreachable(), ErrStarting, "Start has not been called")
	require.ErrorIs(t, get(t, c.Dynamic()), ErrStarting, "a request fails at once")

	_, err = d.Get("example.com")
	require.ErrorContains(t, err, "https://host:port")

	d.Forget("https://EXAMPLE.com/")
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
		await(t, func(ct *assert.CollectT) { assert.Positive(ct, o.times()) })
	}
	says("no Secret with the label cluster-kubeconfig in any namespace has a kubeconfig for " + server.URL)
	says("default/broken (it holds no kubeconfig")

	secrets.put("a", kubeconfigFor(t, server, "", confidential))
	awaitReachable(t, c)
	require.NoError(t, get(t, c.Dynamic()))
	secrets.put("b", kubeconfigFor(t, server, "", confidential))
	says("default/a, default/b")
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

// TestRotation changes a Secret while clients use it.
func TestRotation(t *testing.T) {
	t.Parallel()
	var seen atomic.Value // the token of the last request that was no WATCH
	events := make(chan string)
	discovered := atomic.Int32{}
	server := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1" {
			discovered.Add(1)
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1",`+
				`"resources":[{"name":"configmaps","kind":"ConfigMap","namespaced":true}]}`)
			return
		}
		if !r.URL.Query().Has("watch") {
			seen.Store(r.Header.Get("Authorization"))
			answer(w)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		for {
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
				return
			case name := <-events:
				_ = json.NewEncoder(w).Encode(map[string]any{"type": "ADDED", "object": map[string]any{
					"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name},
				}})
			}
		}
	})
	secrets := &secretsOf{}
	secrets.put("s", kubeconfigFor(t, server, "", "old"))
	d, o := newDestinations(t, secrets)
	c, err := d.Get(server.URL)
	require.NoError(t, err)
	awaitReachable(t, c)
	client := c.Dynamic()
	require.NoError(t, get(t, client))
	require.Equal(t, "Bearer old", seen.Load())
	stream, err := client.Resource(configMaps).Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer stream.Stop()
	events <- "before"
	<-stream.ResultChan()
	serves := func() {
		t.Helper()
		served, err := c.ServesResource(t.Context(), configMaps)
		require.NoError(t, err)
		require.True(t, served)
	}
	serves()
	serves()
	require.EqualValues(t, 1, discovered.Load())
	await(t, func(ct *assert.CollectT) { assert.Equal(ct, 1, o.times()) })

	secrets.put("s", kubeconfigFor(t, server, "", "old")) // the same
	secrets.put("s", kubeconfigFor(t, server, "", "new"))
	await(t, func(ct *assert.CollectT) {
		require.NoError(ct, get(t, client))
		assert.Equal(ct, "Bearer new", seen.Load())
	})
	await(t, func(ct *assert.CollectT) { assert.Equal(ct, 2, o.times()) })
	serves()
	require.EqualValues(t, 2, discovered.Load(), "discovery is asked anew")
	events <- "after"
	event := <-stream.ResultChan()
	require.Equal(t, "after", event.Object.(metav1.Object).GetName(), "the WATCH goes on")
}

// TestRotationClosesConnections: none with the old credentials stays open unused.
func TestRotationClosesConnections(t *testing.T) {
	t.Parallel()
	closed := atomic.Int32{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w) }))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			closed.Add(1)
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	secrets := &secretsOf{}
	secrets.put("s", kubeconfigFor(t, server, "", "old"))
	d, _ := newDestinations(t, secrets)
	c, err := d.Get(server.URL)
	require.NoError(t, err)
	awaitReachable(t, c)
	require.NoError(t, get(t, c.Dynamic()))
	require.Zero(t, closed.Load())
	secrets.put("s", kubeconfigFor(t, server, "", "new"))
	await(t, func(ct *assert.CollectT) { assert.EqualValues(ct, 1, closed.Load()) })
}

// TestNewCredentialsEndAnOutage, and do so before the next probe would.
func TestNewCredentialsEndAnOutage(t *testing.T) {
	t.Parallel()
	server := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer new" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		answer(w)
	})
	secrets := &secretsOf{}
	secrets.put("s", kubeconfigFor(t, server, "", "old"))
	d, o := newDestinations(t, secrets)
	d.limits.backoff.Duration = time.Hour
	c, err := d.Get(server.URL)
	require.NoError(t, err)
	awaitReachable(t, c)
	require.Error(t, get(t, c.Dynamic()))
	await(t, func(ct *assert.CollectT) { assert.ErrorContains(ct, c.Unreachable(), "in Secret default/s") })

	secrets.remove("s")
	await(t, func(ct *assert.CollectT) { assert.ErrorContains(ct, c.Unreachable(), "no Secret") })
	secrets.put("s", kubeconfigFor(t, server, "", "old"))
	awaitReachable(t, c) // as far as is known
	require.Error(t, get(t, c.Dynamic()))
	await(t, func(ct *assert.CollectT) { assert.ErrorContains(ct, c.Unreachable(), "in Secret default/s") })

	told := o.times()
	secrets.put("s", kubeconfigFor(t, server, "", "new"))
	awaitReachable(t, c)
	require.Greater(t, o.times(), told)
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
		sources, _, _ := d.secrets.known()
		assert.Len(ct, sources, 1)
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

// TestFailuresOfSecretsPass: what a later request shows to be over is not told.
func TestFailuresOfSecretsPass(t *testing.T) {
	t.Parallel()
	type answer struct {
		verb string
		err  error
	}
	failed := errors.New("failed")
	tests := map[string]struct {
		answers []answer
		want    string
		// changes is how often it was told.
		changes int
	}{
		"none":                          {[]answer{{"list", nil}, {"watch", nil}, {"watch", nil}}, "", 0},
		"the list fails":                {[]answer{{"list", failed}, {"list", failed}}, "list secrets: failed", 1},
		"another way":                   {[]answer{{"list", failed}, {"list", io.EOF}}, "list secrets: the connection was cut", 2},
		"and does not":                  {[]answer{{"list", failed}, {"list", nil}}, "", 2},
		"the WATCH fails":               {[]answer{{"list", nil}, {"watch", failed}, {"list", nil}}, "watch secrets: failed", 1},
		"and does not fail":             {[]answer{{"watch", failed}, {"list", nil}, {"watch", nil}}, "", 2},
		"a WATCH that begins with all":  {[]answer{{"watch", failed}, {"list", failed}, {"watch", nil}}, "", 3},
		"a list that fails differently": {[]answer{{"watch", failed}, {"list", failed}}, "list secrets: failed", 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changes := 0
			s := newSecrets(nil, "", func() { changes++ })
			for _, a := range tc.answers {
				s.note(t.Context(), a.verb, a.err)
			}
			_, _, err := s.known()
			if tc.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.want)
			}
			require.Equal(t, tc.changes, changes)
		})
	}
}

// TestSecretsThatCannotBeRead has an API server that answers one thing to everything.
func TestSecretsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		namespace string
		code      int
		body      string
		want      []string
	}{
		"forbidden": {
			"", http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"no","code":403}`,
			[]string{"may not", "secrets in any namespace", "grant it list and watch"},
		},
		"forbidden in a namespace": {
			"vidra", http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"no","code":403}`,
			[]string{"may not list secrets in namespace vidra"},
		},
		"an error": {
			"vidra", http.StatusInternalServerError, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"etcd is away","code":500}`,
			[]string{"in namespace vidra", "tried again", "etcd is away"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requests := make(chan *http.Request, 100)
			local := newServer(t, func(w http.ResponseWriter, r *http.Request) {
				requests <- r
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(tc.code)
				_, _ = io.WriteString(w, tc.body)
			})
			client, err := kubernetes.NewForConfigAndClient(&rest.Config{Host: local.URL}, local.Client())
			require.NoError(t, err)
			d := NewDestinations(DestinationsOptions{Secrets: client.CoreV1(), Namespace: tc.namespace})
			start(t, d)
			select {
			case <-requests:
				t.Fatal("a request for Secrets that nobody needs")
			case <-time.After(50 * time.Millisecond):
			}
			c, err := d.Get("https://example.com")
			require.NoError(t, err)
			for _, text := range tc.want {
				await(t, func(ct *assert.CollectT) { assert.ErrorContains(ct, c.Unreachable(), text) })
			}
			require.NotErrorIs(t, c.Unreachable(), ErrStarting)
			request := <-requests
			path := "/api/v1/secrets"
			if tc.namespace != "" {
				path = "/api/v1/namespaces/" + tc.namespace + "/secrets"
			}
			require.Equal(t, path, request.URL.Path)
			require.Equal(t, "cluster-kubeconfig,cluster-kubeconfig!=false", request.URL.Query().Get("labelSelector"))
		})
	}
}
