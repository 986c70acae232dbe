package ui

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/writes"
)

// Options configure a Server.
type Options struct {
	// Config is the API server, and the user whose rights the pages have.
	Config *rest.Config
	// Cluster is the name of the cluster on all pages, such as the context of a kubeconfig.
	Cluster string
	// Namespace is the namespace of objects in a dropped file that name none. Defaults to default.
	Namespace string
	// Program is the name of the command line on the user's machine. Defaults to insight.DefaultProgram.
	Program insight.Program
	// Operator are the settings of the operator, and KubeconfigNamespace the namespace of the kubeconfigs of other clusters, for dropped
	// files. See insight.Options.
	Operator            insight.Operator
	KubeconfigNamespace string
	// AllowWrites has the pages offer actions. Without it, they show the commands.
	AllowWrites bool
}

// Server serves the pages. Its methods are safe for concurrent use.
type Server struct {
	options Options
	at      address
	client  dynamic.Interface
	insight *insight.Client
	// previews answers the questions about the effects of dropped files. It reads VidraResources with their manifests, which
	// the store drops.
	previews  *insight.Client
	writes    *writes.Client
	feeds     *feeds
	hub       *hub
	store     *store
	observers *observers
	cluster   *cluster.Cluster
	// pages counts the open connections of live.
	pages atomic.Int64
}

// address is the address of a page.
type address struct {
	// token is part of the path of each URL, and host the only accepted Host header.
	token, host string
	listener    net.Listener
}

// New returns a Server that listens on 127.0.0.1, on a free port if port is 0. It sends no request to the API server.
func New(o Options, port int) (*Server, error) {
	o.Namespace, o.Program = cmp.Or(o.Namespace, "default"), cmp.Or(o.Program, insight.DefaultProgram)
	o.Config = rest.CopyConfig(o.Config)
	o.Config.QPS, o.Config.Burst = -1, 0 // the API server limits
	client, err := dynamic.NewForConfig(o.Config)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	s := &Server{options: o, at: address{token: rand.Text()}, client: client, hub: newHub()}
	s.feeds = newFeeds(client, s.hub)
	s.store = newStore(s)
	if s.writes, err = writes.New(o.Config, insight.Options{Program: o.Program, VidraResources: s.store}); err != nil {
		return nil, err
	}
	s.insight = s.writes.Questions()
	if s.previews, err = insight.New(o.Config, insight.Options{Program: o.Program, Operator: o.Operator, KubeconfigNamespace: o.KubeconfigNamespace}); err != nil {
		return nil, err
	}
	if s.cluster, err = cluster.New(o.Config); err != nil {
		return nil, err
	}
	s.observers = newObservers(s)
	s.at.listener, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("listen on port %d of 127.0.0.1: %w; choose another one with --port, or none for a free one", port, err)
	}
	s.at.host = s.at.listener.Addr().String()
	return s, nil
}

// URL is the address of the overview, with the token.
func (s *Server) URL() string { return "http://" + s.at.host + s.base() + "/" }

// base is the path under which all is served.
func (s *Server) base() string { return "/" + s.at.token }

const (
	// headerTimeout bounds the time for the header of a request, and writeTimeout the time for one write of an answer.
	headerTimeout = 10 * time.Second
	writeTimeout  = 30 * time.Second
	maxHeader     = 64 << 10
	// questionTimeout bounds the time for an answer of the API server to the question of a page.
	questionTimeout = time.Minute
)

// Serve serves until ctx ends.
func (s *Server) Serve(ctx context.Context) error {
	defer s.feeds.use(vidraResourceFeed, s.store)() // the first page finds the VidraResources read
	server := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: headerTimeout, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	context.AfterFunc(ctx, func() { _ = server.Close() }) // open pages show that the server has ended
	if err := server.Serve(s.at.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the page: %w", err)
	}
	return nil
}

// handler serves all paths.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.overview)
	mux.HandleFunc("GET /vr/{name}", s.vidraResource)
	mux.HandleFunc("GET /object", s.object)
	mux.HandleFunc("GET /forecast", s.forecast)
	mux.HandleFunc("POST /forecast", s.judge)
	mux.HandleFunc("POST /act", s.act)
	mux.HandleFunc("GET /live", s.live)
	mux.HandleFunc("GET /static/{file}", s.static)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, http.StatusNotFound, errors.New("this page does not exist: the overview has all VidraResources"))
	})
	return s.guard(http.StripPrefix(s.base(), mux))
}
