package archive

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/clients"
)

const (
	// perSecond and burst bound the requests of one client. Each request reads the API server.
	perSecond, burst = 10, 50
	// reading and writing bound the archives that are read, and that are sent to clients, at a time; writeTimeout bounds the time of the latter.
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
	sending clients.Limiter
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
	server := clients.NewServer(s, 2*writeTimeout)
	stopped := context.AfterFunc(ctx, func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = server.Shutdown(stopping) // longer answers are cut off
	})
	defer stopped()
	s.Log.Info("Serves published artifacts", "address", listener.Addr().String())
	if err := server.Serve(clients.Listener(listener)); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve published artifacts: %w", err)
	}
	return nil
}

func (s *Server) prepare() {
	s.reading = make(chan struct{}, reading)
	s.sending.PerSecond, s.sending.Burst, s.sending.AtATime = perSecond, burst, writing
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
	leave, ok := s.sending.Enter(request.RemoteAddr)
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
