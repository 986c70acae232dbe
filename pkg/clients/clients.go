// Package clients bounds the work of a server for each of its clients.
package clients

import (
	"maps"
	"net"
	"net/http"
	"sync"

	"golang.org/x/time/rate"
)

// maxClients is the number of known clients.
const maxClients = 1000

// Limiter bounds the requests of each client, by its address, and all requests at a time. A client takes at most as many places as it leaves, so that each
// further slow one finds half of the rest. It is safe for concurrent use.
type Limiter struct {
	// PerSecond and Burst are the limit of a client, and AtATime the number of places.
	PerSecond      rate.Limit
	Burst, AtATime int

	// mu guards the fields below, and the clients.
	mu sync.Mutex
	// taken is the number of places in use.
	taken   int
	clients map[string]*client
}

// client is a client, by its address.
type client struct {
	limiter *rate.Limiter
	taken   int
}

// Enter takes a place for a request from an address, if the client has one left. leave gives it back.
func (l *Limiter) Enter(address string) (leave func(), ok bool) {
	host, _, _ := net.SplitHostPort(address)
	l.mu.Lock()
	defer l.mu.Unlock()
	from := l.clients[host]
	if from == nil {
		if len(l.clients) >= maxClients { // those that are left begin anew
			maps.DeleteFunc(l.clients, func(_ string, other *client) bool { return other.taken == 0 })
		}
		if l.clients == nil {
			l.clients = map[string]*client{}
		}
		from = &client{limiter: rate.NewLimiter(l.PerSecond, l.Burst)}
		l.clients[host] = from
	}
	if !from.limiter.Allow() || from.taken >= l.AtATime-l.taken {
		return nil, false
	}
	from.taken++
	l.taken++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		from.taken--
		l.taken--
	}, true
}

// Handler returns a handler that answers the requests beyond the bounds with 429.
func (l *Limiter) Handler(inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leave, ok := l.Enter(r.RemoteAddr)
		if !ok {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		defer leave()
		inner.ServeHTTP(w, r)
	})
}

// maxConnections is the number of connections of a Listener. One without a request takes about 20 KiB of memory, and one with a header up to 16 KiB more.
const maxConnections = 512

// Listener returns a listener that closes the connections beyond the bound of their client: a client may keep as many open as it has ports.
func Listener(inner net.Listener) net.Listener {
	return &listener{Listener: inner, open: Limiter{PerSecond: rate.Inf, AtATime: maxConnections}}
}

type listener struct {
	net.Listener

	open Limiter
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if leave, ok := l.open.Enter(accepted.RemoteAddr().String()); ok {
			return &connection{accepted, sync.OnceFunc(leave)}, nil
		}
		_ = accepted.Close() // its client sees that
	}
}

type connection struct {
	net.Conn

	leave func()
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.leave()
	return c.Conn.Close()
}
