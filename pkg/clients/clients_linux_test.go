package clients

import (
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLimiter(t *testing.T) {
	l := &Limiter{PerSecond: 1, Burst: 10, AtATime: 4}
	enter := func(address string) (leave func()) {
		leave, _ = l.Enter(address)
		return leave
	}
	first, second := enter("10.0.0.1:1"), enter("10.0.0.1:2")
	require.NotNil(t, first)
	require.NotNil(t, second)
	require.Nil(t, enter("10.0.0.1:3"), "a client takes as many places as it leaves")
	other := enter("[fd00::1]:1")
	require.NotNil(t, other)
	require.Nil(t, enter("[fd00::1]:2"))
	first()
	second()
	for range 7 {
		enter("10.0.0.1:4")()
	}
	require.Nil(t, enter("10.0.0.1:4"), "its rate is bounded")
	require.NotNil(t, enter("10.0.0.2:1"))
}

// TestListener: a client with thousands of connections takes half of the places, and others have answers.
func TestListener(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // of the test
	require.NoError(t, err)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.NotFoundHandler()}
	go func() { _ = server.Serve(Listener(inner)) }()
	t.Cleanup(func() { _ = server.Close() })
	dial := func(from string) (net.Conn, bool) {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := dialer.DialContext(t.Context(), "tcp", inner.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		_, _ = c.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n")) // the answer decides
		n, _ := c.Read(make([]byte, 1))
		return c, n == 1
	}
	var open []net.Conn
	for range maxConnections {
		if c, answered := dial("127.0.0.1"); answered {
			open = append(open, c)
		}
	}
	require.Len(t, open, maxConnections/2)
	_, answered := dial("127.0.0.2")
	require.True(t, answered, "of another client")
	for _, c := range open {
		require.NoError(t, c.Close())
	}
	require.Eventually(t, func() bool { _, answered := dial("127.0.0.1"); return answered }, time.Minute, 10*time.Millisecond, "places are given back")
}
