package cluster

import (
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// TestBlackHole has a listener that takes connections and never answers.
func TestBlackHole(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ connect, answer time.Duration }{
		"http":  {time.Hour, 200 * time.Millisecond},
		"https": {200 * time.Millisecond, time.Hour}, // the TLS handshake is not answered
	}
	for scheme, tc := range tests {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			hole := listen(t, func(net.Conn) {})
			server := scheme + "://" + hole.Addr().String()
			secrets := &secretsOf{}
			secrets.put("s", write(t, one(&clientcmdapi.Cluster{Server: server}, &clientcmdapi.AuthInfo{})))
			d, o := newDestinations(t, secrets)
			d.limits.connect, d.limits.answer, d.limits.probe = tc.connect, tc.answer, 100*time.Millisecond
			c, err := d.Get(server)
			require.NoError(t, err)
			awaitReachable(t, c)
			began := time.Now()
			require.Error(t, get(t, c.Dynamic()))
			require.Less(t, time.Since(began), 10*time.Second)
			await(t, func(ct *assert.CollectT) { assert.ErrorContains(ct, c.Unreachable(), "in time: check that it runs") })
			await(t, func(ct *assert.CollectT) { assert.GreaterOrEqual(ct, o.times(), 2) })
		})
	}
}

// TestDeadConnection: a connection that died unseen does not outlive the outage.
func TestDeadConnection(t *testing.T) {
	t.Parallel()
	server := newServer(t, func(w http.ResponseWriter, _ *http.Request) { answer(w) })
	var mu sync.Mutex
	frozen := 0 // how many connections carry nothing any more
	var inbound []net.Conn
	relay := listen(t, func(client net.Conn) {
		upstream, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		if err != nil {
			return
		}
		defer upstream.Close() //nolint:errcheck // a test
		mu.Lock()
		number := len(inbound)
		inbound = append(inbound, client)
		mu.Unlock()
		go func() { _, _ = io.Copy(client, upstream) }()
		buffer := make([]byte, 4096)
		for {
			n, err := client.Read(buffer)
			if err != nil {
				return
			}
			mu.Lock()
			dead := number < frozen
			mu.Unlock()
			if dead {
				continue
			}
			if _, err := upstream.Write(buffer[:n]); err != nil {
				return
			}
		}
	})
	through := "https://" + relay.Addr().String()
	config, err := clientcmd.Load([]byte(kubeconfigFor(t, server, "", confidential)))
	require.NoError(t, err)
	config.Clusters["c"].Server = through
	secrets := &secretsOf{}
	secrets.put("s", write(t, *config))
	d, _ := newDestinations(t, secrets)
	d.limits.answer, d.limits.probe = time.Second, 200*time.Millisecond
	c, err := d.Get(through)
	require.NoError(t, err)
	awaitReachable(t, c)
	require.NoError(t, get(t, c.Dynamic()))
	mu.Lock()
	frozen = len(inbound)
	mu.Unlock()
	require.Error(t, get(t, c.Dynamic()))
	await(t, func(ct *assert.CollectT) { assert.NoError(ct, get(t, c.Dynamic())) })
	mu.Lock()
	defer mu.Unlock()
	require.Greater(t, len(inbound), frozen, "there is a new connection")
}

// TestCauses: what is wrong is told with what to do.
func TestCauses(t *testing.T) {
	t.Parallel()
	server := newServer(t, func(w http.ResponseWriter, _ *http.Request) { answer(w) })
	closed := listen(t, func(net.Conn) {})
	require.NoError(t, closed.Close())
	cut := listen(t, func(conn net.Conn) { _ = conn.Close() })
	tests := map[string]struct {
		cluster clientcmdapi.Cluster
		want    string
	}{
		"nobody listens":         {clientcmdapi.Cluster{Server: "https://" + closed.Addr().String()}, "connection refused: check that it runs"},
		"connections are cut":    {clientcmdapi.Cluster{Server: "https://" + cut.Addr().String()}, "the connection was cut: check that it runs"},
		"an unknown certificate": {clientcmdapi.Cluster{Server: server.URL}, "correct certificate-authority-data or server in Secret default/s"},
		"the proxy is away":      {clientcmdapi.Cluster{Server: server.URL, ProxyURL: "http://me:" + confidential + "@" + closed.Addr().String()}, "proxy: connection refused"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			secrets := &secretsOf{}
			secrets.put("s", write(t, one(&tc.cluster, &clientcmdapi.AuthInfo{Token: confidential})))
			d, _ := newDestinations(t, secrets)
			c, err := d.Get(tc.cluster.Server)
			require.NoError(t, err)
			awaitReachable(t, c)
			// Not with a client, which tries again by itself.
			require.Error(t, send(t.Context(), t, c.remote, "/api"))
			await(t, func(ct *assert.CollectT) { assert.ErrorContains(ct, c.Unreachable(), tc.want) })
			require.NotContains(t, c.Unreachable().Error(), confidential)
		})
	}
}

// listen has serve called with each connection, which is open until the end of the test.
func listen(t *testing.T, serve func(net.Conn)) net.Listener {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var mu sync.Mutex
	var serving sync.WaitGroup
	var all []net.Conn
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			all = append(all, conn)
			mu.Unlock()
			serving.Go(func() { serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close() // it may be closed
		mu.Lock()
		for _, conn := range all {
			_ = conn.Close() // it may be closed
		}
		mu.Unlock()
		serving.Wait()
	})
	return listener
}
