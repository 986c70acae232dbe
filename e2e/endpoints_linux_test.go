package e2e

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFloodOfEndpoints: a Pod with many connections or large headers takes neither the memory of the operator nor the places of the kubelet and Prometheus.
func TestFloodOfEndpoints(t *testing.T) {
	t.Parallel()
	for _, address := range []string{operator.HealthURL + "/healthz", operator.HealthURL + "/readyz", operator.MetricsURL} {
		at, err := url.Parse(address)
		require.NoError(t, err)
		answered := func(from, header string) string {
			dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
			c, err := dialer.DialContext(t.Context(), "tcp", at.Host)
			require.NoError(t, err)
			t.Cleanup(func() { _ = c.Close() })
			_ = c.SetDeadline(time.Now().Add(patience))
			_, _ = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: a\r\n%s\r\n", at.Path, header) // the answer decides
			status := make([]byte, len("HTTP/1.1 200"))
			n, _ := io.ReadFull(c, status)
			return string(status[:n])
		}
		require.Equal(t, "HTTP/1.1 200", answered("127.0.0.3", ""))
		require.Equal(t, "HTTP/1.1 431", answered("127.0.0.3", "X: "+strings.Repeat("x", 100<<10)+"\r\n"), "at %s", address)
		open := 0
		for range 300 {
			if answered("127.0.0.4", "") != "" {
				open++
			}
		}
		require.LessOrEqual(t, open, 256, "at %s", address)
		require.Equal(t, "HTTP/1.1 200", answered("127.0.0.3", ""))
	}
}
