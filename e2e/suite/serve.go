package suite

import (
	"cmp"
	"crypto/tls"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/util/cert"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

// loopback is the address at which processes of this machine reach each other.
const loopback = "127.0.0.1"

// ListenAddress is the address on which a test serves what the cluster is to reach: the API
// server, or the operator. It skips the test where the cluster cannot reach this machine.
func ListenAddress(t *testing.T) string {
	t.Helper()
	address := os.Getenv(AddressVariable)
	if Deployed() && address == "" {
		Skip(t, "the cluster is to reach a server of the test, and "+AddressVariable+" is not set")
	}
	return cmp.Or(address, loopback)
}

// Serve starts a server that the cluster reaches. It ends with the test.
func Serve(t *testing.T, handler http.Handler) *httptest.Server {
	t.Helper()
	server := unstarted(t, handler)
	server.Start()
	return server
}

// ServeTLS starts a server that the cluster reaches by HTTPS, and returns its authority in PEM,
// too. It ends with the test.
func ServeTLS(t *testing.T, handler http.Handler) (server *httptest.Server, authority []byte) {
	t.Helper()
	server = unstarted(t, handler)
	if address := ListenAddress(t); address != loopback {
		pair, err := certificates(address)
		require.NoError(t, err)
		server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
		server.StartTLS()
		return server, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[len(pair.Certificate)-1]})
	}
	server.StartTLS() // with a certificate for this address
	return server, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

func unstarted(t *testing.T, handler http.Handler) *httptest.Server {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(ListenAddress(t), "0"))
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(handler)
	require.NoError(t, server.Listener.Close())
	server.Listener = listener
	t.Cleanup(server.Close)
	return server
}

// certificate is made once: its key takes a while.
var certificate struct {
	sync.Mutex
	made *tls.Certificate
}

// certificates returns a certificate for an address, which is the same each time, and that of
// its authority behind it.
func certificates(address string) (tls.Certificate, error) {
	certificate.Lock()
	defer certificate.Unlock()
	if certificate.made == nil {
		chain, key, err := cert.GenerateSelfSignedCertKey(address, nil, nil)
		if err != nil {
			return tls.Certificate{}, err
		}
		pair, err := tls.X509KeyPair(chain, key)
		if err != nil {
			return tls.Certificate{}, err
		}
		certificate.made = &pair
	}
	return *certificate.made, nil
}

// FreeAddress returns an address of the loopback interface with a port of testenv.FreePort.
func FreeAddress(t *testing.T) *net.TCPAddr {
	t.Helper()
	port, err := testenv.FreePort()
	require.NoError(t, err)
	return &net.TCPAddr{IP: net.ParseIP(loopback), Port: port}
}
