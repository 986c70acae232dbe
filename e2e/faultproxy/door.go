package faultproxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"

	"k8s.io/client-go/util/cert"
)

// errClosed is that of a proxy that has been closed for good.
var errClosed = errors.New("the proxy is closed")

// door is the side of the proxy that its clients see: an HTTPS server that can
// go away and come back at the same address.
type door struct {
	handler http.Handler
	address string
	// certificate of the server, PEM-encoded, with the one that signed it.
	certificate []byte
	tls         *tls.Config

	// mu guards server and closed. It is held while the server starts and ends.
	mu sync.Mutex
	// server is nil while the door is shut.
	server *server
	closed bool
}

// newDoor opens a door on a free port, with a throw-away certificate.
func newDoor(handler http.Handler) (*door, error) {
	const host = "127.0.0.1"
	certificate, key, err := cert.GenerateSelfSignedCertKey(host, nil, nil)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	d := &door{
		handler:     handler,
		certificate: certificate,
		tls:         &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
	}
	// These ports are below those that the operating system hands out: while
	// the door is shut, no other process gets the port by chance.
	const attempts, first, ports = 50, 20000, 10000
	for range attempts {
		d.address = net.JoinHostPort(host, strconv.Itoa(first+rand.IntN(ports)))
		if err = d.open(); err == nil {
			return d, nil
		}
	}
	return nil, fmt.Errorf("finding a free port: %w", err)
}

// open lets clients in. It is idempotent.
func (d *door) open() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosed
	}
	if d.server != nil {
		return nil
	}
	listener, err := net.Listen("tcp", d.address)
	if err != nil {
		return err
	}
	d.server = startServer(listener, d.tls.Clone(), d.handler)
	return nil
}

// shut ends all connections and accepts none. It is idempotent.
func (d *door) shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.server != nil {
		d.server.stop()
		d.server = nil
	}
}

func (d *door) shutForGood() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.shut()
}

// server is an http.Server that can be stopped to the last handler.
type server struct {
	http   *http.Server
	cancel context.CancelFunc
	// served is closed when no more connections are accepted.
	served chan struct{}

	// mu guards stopping and the growth of handlers.
	mu       sync.Mutex
	stopping bool
	handlers sync.WaitGroup
}

func startServer(listener net.Listener, tlsConfig *tls.Config, handler http.Handler) *server {
	ctx, cancel := context.WithCancel(context.Background())
	s := &server{cancel: cancel, served: make(chan struct{})}
	s.http = &http.Server{
		Handler:     s.counted(handler),
		TLSConfig:   tlsConfig,
		ErrorLog:    quiet,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	go func() {
		defer close(s.served)
		_ = s.http.ServeTLS(listener, "", "") // it ends with ErrServerClosed
	}()
	return s
}

// counted notes the handlers that run, and lets none begin once the server
// stops.
func (s *server) counted(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		if s.stopping {
			s.mu.Unlock()
			panic(http.ErrAbortHandler)
		}
		s.handlers.Add(1)
		s.mu.Unlock()
		defer s.handlers.Done()
		handler.ServeHTTP(w, r)
	})
}

// stop closes the listener and every connection and waits for the handlers.
func (s *server) stop() {
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	_ = s.http.Close() // of a listener that may be closed
	s.cancel()
	<-s.served
	s.handlers.Wait()
}
