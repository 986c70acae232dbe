package cluster

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
	stream, err := client.Resource(configMaps).Watch(t.Context(), metav1.ListOptions{SendInitialEvents: new(true)}) // as an informer does
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
	_, open := <-stream.ResultChan()
	require.False(t, open, "no WATCH goes on with the former credentials")
	_, err = client.Resource(configMaps).Watch(t.Context(), metav1.ListOptions{ResourceVersion: "5"})
	require.True(t, apierrors.IsResourceExpired(err), "its informer lists again: %v", err)
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

// TestNewCredentialsEndAHold: they lead to another server, perhaps, than the one that had sent too much.
func TestNewCredentialsEndAHold(t *testing.T) {
	t.Parallel()
	server := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer new" {
			w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf")
			return
		}
		answer(w)
	})
	secrets := &secretsOf{}
	secrets.put("s", kubeconfigFor(t, server, "", "old"))
	d, _ := newDestinations(t, secrets)
	d.limits.hold, d.limits.maxHold = time.Hour, time.Hour
	c, err := d.Get(server.URL)
	require.NoError(t, err)
	awaitReachable(t, c)
	const path = "/api/v1/configmaps"
	c.remote.bounds.oversized.add(path, &d.limits)
	require.Error(t, get(t, c.Dynamic()))
	require.ErrorContains(t, c.Unreachable(), errNotJSON.Error())

	secrets.put("s", kubeconfigFor(t, server, "", "new"))
	awaitReachable(t, c)
	require.NoError(t, get(t, c.Dynamic()))
	require.NoError(t, c.remote.bounds.oversized.of(path))
}

// TestLateAnswerOverAFormerRoute: an answer to a request with former credentials that exceeds a limit has no request with the present ones held back.
func TestLateAnswerOverAFormerRoute(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ reason, media string }{
		"Body":     {"The answer needs too much memory.", "application/json"},
		"Encoding": {"The memory that the answer needs is unknown.", "application/vnd.kubernetes.protobuf"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked, release := make(chan struct{}), make(chan struct{})
			server := newServer(t, func(w http.ResponseWriter, r *http.Request) {
				if !strings.HasPrefix(r.URL.Path, "/api/v1/") || r.Header.Get("Authorization") == "Bearer new" {
					answer(w)
					return
				}
				close(asked)
				<-release
				w.Header().Set("Content-Type", tc.media)
				_, _ = io.WriteString(w, `{"items":[`+strings.Repeat("{},", 100_000))
			})
			secrets := &secretsOf{}
			secrets.put("s", kubeconfigFor(t, server, "", "old"))
			d, _ := newDestinations(t, secrets)
			d.limits.hold, d.limits.maxHold, d.limits.held = time.Hour, time.Hour, testHeldMost
			d.limits.answer, d.limits.suspect = time.Minute, time.Minute
			c, err := d.Get(server.URL)
			require.NoError(t, err)
			awaitReachable(t, c)
			late := make(chan error)
			go func() { late <- get(t, c.Dynamic()) }()
			<-asked
			former := c.remote.route.Load()
			secrets.put("s", kubeconfigFor(t, server, "", "new"))
			await(t, func(ct *assert.CollectT) { assert.NotSame(ct, former, c.remote.route.Load()) })
			close(release)
			require.Error(t, <-late)
			require.NoError(t, c.Unreachable(), tc.reason)
			require.NoError(t, get(t, c.Dynamic()), tc.reason)
		})
	}
}
