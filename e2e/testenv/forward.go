package testenv

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
)

// Forwarder gives the API server of an Env one more URL: it passes connections on as
// they are, so that TLS and credentials are between the client and the server. Its
// methods are safe for concurrent use.
type Forwarder struct {
	// URL is under which the API server is reached, with the same CA.
	URL string

	listener net.Listener
	serving  sync.WaitGroup

	// mu guards the fields below.
	mu     sync.Mutex
	target string
	open   map[net.Conn]struct{}
	closed bool
}

// Forward starts a Forwarder on a free port of the loopback address. Close ends it.
func (e *Env) Forward() (*Forwarder, error) {
	target, err := url.Parse(e.Config.Host)
	if err != nil {
		return nil, fmt.Errorf("forwarding to the API server: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("forwarding to the API server: %w", err)
	}
	f := &Forwarder{
		URL: "https://" + listener.Addr().String(), target: target.Host, listener: listener, open: map[net.Conn]struct{}{},
	}
	f.serving.Go(f.accept)
	return f, nil
}

// Redirect passes the connections that are made from now on to the API server of another Env, as a name does whose
// address has changed. Open connections stay.
func (f *Forwarder) Redirect(to *Env) error {
	target, err := url.Parse(to.Config.Host)
	if err != nil {
		return fmt.Errorf("forwarding to the API server: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.target = target.Host
	return nil
}

// Connections is how many clients are connected.
func (f *Forwarder) Connections() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.open)
}

// Close closes every connection and takes no new ones. It returns when nothing of the
// Forwarder is left. It is idempotent.
func (f *Forwarder) Close() error {
	f.mu.Lock()
	f.closed = true
	err := f.listener.Close()
	for conn := range f.open {
		_ = conn.Close()
	}
	f.mu.Unlock()
	f.serving.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// accept takes connections until the listener is closed.
func (f *Forwarder) accept() {
	for {
		conn, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.mu.Lock()
		if f.closed {
			_ = conn.Close()
		} else {
			f.open[conn] = struct{}{}
			f.serving.Go(func() { f.forward(conn) })
		}
		f.mu.Unlock()
	}
}

// forward passes one connection on until either end closes it.
func (f *Forwarder) forward(client net.Conn) {
	defer func() {
		_ = client.Close()
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.open, client)
	}()
	f.mu.Lock()
	target := f.target
	f.mu.Unlock()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return // to the client, the connection is broken
	}
	f.serving.Go(func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	})
	_, _ = io.Copy(server, client)
	_ = server.Close()
}
