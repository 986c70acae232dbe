package archive

import (
	"context"
	"errors"
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

// Server serves the archives of a Store to every client. It implements http.Handler, with bounds for each client and for all of them.
type Server struct {
	store *Store
	log   logr.Logger

	reading chan struct{}
	sending clients.Limiter
}

// NewServer returns a server for the archives of a Store, which logs its failures.
func NewServer(store *Store, log logr.Logger) *Server {
	return &Server{
		store: store, log: log, reading: make(chan struct{}, reading), sending: clients.Limiter{PerSecond: perSecond, Burst: burst, AtATime: writing},
	}
}

// PathOf returns the path of an archive at a Server, without a slash before it.
func PathOf(publisher types.UID, digest string) string {
	return path.Join(folder, string(publisher), digest+".tar.gz")
}

var paths = regexp.MustCompile(`^/` + folder + `/([0-9a-f-]{36})/([0-9a-f]{64})\.tar\.gz$`)

// load reads an archive.
func (s *Server) load(ctx context.Context, publisher types.UID, digest string) ([]byte, error) {
	select {
	case s.reading <- struct{}{}:
		defer func() { <-s.reading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return s.store.Load(ctx, publisher, digest)
}

// ServeHTTP implements http.Handler.
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
		s.log.Error(err, "A published artifact cannot be served: grant Vidra get on secrets in its own namespace")
		busy(w)
		return
	}
	w.Header().Set("Content-Type", "application/gzip")
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	w.Header().Set("ETag", `"`+found[2]+`"`)
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout)) // an http.Server supports it
	if request.Method == http.MethodGet {
		_, _ = w.Write(content) // the client is gone otherwise
	}
}

func busy(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
}
