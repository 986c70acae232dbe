package archive

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// perSecond and burst bound the requests of one client, by its address; maxClients clients are known. Each request reads the API server.
	perSecond, burst, maxClients = 10, 50, 1000
	// reading and writing bound the archives that are read, and that are sent to clients, at a time; writeTimeout bounds the time of the latter. A client takes
	// at most as many places of writing as it leaves, so that each further one that does not read finds half of the rest.
	reading, writing = 4, 16
	writeTimeout     = 10 * time.Second
	// folder is the first part of the paths.
	folder = "archives"
)

// Server serves the archives of a Store to every client. It implements manager.Runnable.
type Server struct {
	// Address to listen on.
	Address string
	Store   *Store
	Log     logr.Logger

	reading chan struct{}

	// mu guards the fields below, and the clients.
	mu sync.Mutex
	// sending is how many archives are sent at present.
	sending int
	clients map[string]*client
}

// client is a client, by its address.
type client struct {
	limiter *rate.Limiter
	sending int
}

// PathOf returns the path of an archive at a Server, without a slash before it.
func PathOf(publisher types.UID, digest string) string {
	return path.Join(folder, string(publisher), digest+".tar.gz")
}

var paths = regexp.MustCompile(`^/` + folder + `/([0-9a-f-]{36})/([0-9a-f]{64})\.tar\.gz$`)

// NeedLeaderElection is false: a Service may send a request to any replica.
func (s *Server) NeedLeaderElection() bool { return false }

// Start serves until ctx ends.
func (s *Server) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Address)
	if err != nil {
		return fmt.Errorf("--infrahub-publish-bind-address: %w", err)
	}
	s.prepare()
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 2 * writeTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	stopped := context.AfterFunc(ctx, func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = server.Shutdown(stopping) // longer answers are cut off
	})
	defer stopped()
	s.Log.Info("Serves published artifacts", "address", listener.Addr().String())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve published artifacts: %w", err)
	}
	return nil
}

func (s *Server) prepare() {
	s.reading, s.clients = make(chan struct{}, reading), map[string]*client{}
}

// enter takes a place for the answer to one more request of a client, if one is free. leave releases it.
func (s *Server) enter(address string) (leave func(), ok bool) {
	host, _, _ := net.SplitHostPort(address)
	s.mu.Lock()
	defer s.mu.Unlock()
	from := s.clients[host]
	if from == nil {
		if len(s.clients) >= maxClients { // those that are left begin anew
			maps.DeleteFunc(s.clients, func(_ string, other *client) bool { return other.sending == 0 })
		}
		from = &client{limiter: rate.NewLimiter(perSecond, burst)}
		s.clients[host] = from
	}
	if !from.limiter.Allow() || from.sending >= writing-s.sending {
		return nil, false
	}
	from.sending++
	s.sending++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		from.sending--
		s.sending--
	}, true
}

// load reads an archive.
func (s *Server) load(ctx context.Context, publisher types.UID, digest string) ([]byte, error) {
	select {
	case s.reading <- struct{}{}:
		defer func() { <-s.reading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return s.Store.Load(ctx, publisher, digest)
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	found := paths.FindStringSubmatch(request.URL.Path)
	switch {
	case request.Method != http.MethodGet && request.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case found == nil:
		w.WriteHeader(http.StatusNotFound)
		return
	}
	leave, ok := s.enter(request.RemoteAddr)
	if !ok {
		busy(w)
		return
	}
	defer leave()
	content, err := s.load(request.Context(), types.UID(found[1]), found[2])
	switch {
	case request.Context().Err() != nil:
		return
	case errors.Is(err, ErrNotKept):
		w.WriteHeader(http.StatusNotFound)
		return
	case err != nil:
		s.Log.Error(err, "A published artifact cannot be served: grant Vidra get on secrets in its own namespace")
		busy(w)
		return
	}
	w.Header().Set("Content-Type", "application/gzip")
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	w.Header().Set("ETag", `"`+found[2]+`"`)
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout)) // the server of Start supports it
	if request.Method == http.MethodGet {
		_, _ = w.Write(content) // the client is gone otherwise
	}
}

func busy(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
}
