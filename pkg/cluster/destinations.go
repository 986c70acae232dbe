package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/util/workqueue"

	"github.com/vidra-operator/vidra/pkg/internal/parallel"
)

// ErrStarting is the error of a remote cluster while the Secrets with kubeconfigs are read for the first time.
var ErrStarting = errors.New("the Secrets with kubeconfigs are being read")

// DestinationsOptions configure Destinations.
type DestinationsOptions struct {
	// Secrets reads the Secrets with the label KubeconfigLabel. It is used from the time when
	// the first remote cluster is needed.
	Secrets typedcorev1.SecretsGetter
	// Namespace is where the Secrets are. Defaults to all namespaces.
	Namespace string
	// AllowInsecure allows kubeconfigs with insecure-skip-tls-verify, or with a server that
	// is reached without TLS. AllowProxies allows those with a proxy-url.
	AllowInsecure, AllowProxies bool
	// OnChange is called with the Name of a remote cluster when it became unreachable or
	// reachable, or when the cause or its credentials changed. Calls are made one at a time,
	// and one call may report several changes. It is called from Start on. Optional.
	OnChange func(server string)
	// Warnings handles the warnings of the API servers. Defaults to the handler of client-go.
	Warnings rest.WarningHandlerWithContext
	// UserAgent is the header User-Agent of each request. Defaults to the header of client-go.
	UserAgent string
	// Wrap wraps the transport of each request. Optional.
	Wrap transport.WrapperFunc
	// Log receives the same changes. Defaults to no log.
	Log logr.Logger
}

// Destinations holds the remote clusters of objects. Its methods are safe for concurrent use.
type Destinations struct {
	opts    DestinationsOptions
	limits  limits
	secrets *secrets
	// changed is the queue of servers whose change is to be reported.
	changed workqueue.TypedInterface[string]
	// ctx ends the remote clusters.
	ctx    context.Context
	cancel context.CancelFunc
	// needed is closed when the first remote cluster is needed, with need.
	needed chan struct{}
	need   sync.Once

	// outdated holds a token when the routes are to be set again.
	outdated parallel.Signal

	// mu guards clusters. Their routes are set while it is held, which sends no request.
	mu       sync.Mutex
	clusters map[string]*Cluster
}

// NewDestinations returns empty Destinations. It starts no goroutine and sends no
// request.
func NewDestinations(opts DestinationsOptions) *Destinations {
	if opts.OnChange == nil {
		opts.OnChange = func(string) {}
	}
	if opts.UserAgent == "" {
		opts.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	if opts.Log.GetSink() == nil {
		opts.Log = logr.Discard()
	}
	d := &Destinations{
		opts: opts, limits: defaultLimits, changed: workqueue.NewTyped[string](),
		needed: make(chan struct{}), outdated: parallel.NewSignal(), clusters: map[string]*Cluster{},
	}
	d.secrets = newSecrets(opts.Secrets, opts.Namespace, d.outdated.Send)
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// Start blocks until ctx ends. Then requests to remote clusters fail, and every goroutine has
// ended when it returns. The Secrets are read as soon as both Get and Start have been called; until
// then a remote cluster is unreachable with ErrStarting. It is a manager.Runnable and must be
// called once.
func (d *Destinations) Start(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var notifying sync.WaitGroup
	notifying.Go(func() { d.notify(ctx) })
	notifying.Go(func() { d.route(ctx) })
	err := d.readSecrets(ctx)
	stop()
	notifying.Wait()
	d.mu.Lock()
	d.cancel() // clusters that are made after this fail their requests
	clusters := slices.Collect(maps.Values(d.clusters))
	d.mu.Unlock()
	for _, c := range clusters {
		c.remote.close()
	}
	return err
}

// readSecrets reads the Secrets until ctx ends, from the time when they are needed.
func (d *Destinations) readSecrets(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-d.needed:
		return d.secrets.run(ctx)
	}
}

// ReadOnce reads the Secrets once, for a program that ends soon: it is called instead of Start, and a later change of a Secret
// is ignored. The error wraps the error of the request.
func (d *Destinations) ReadOnce(ctx context.Context) error {
	if err := d.secrets.readOnce(ctx); err != nil {
		return err
	}
	d.updateRoutes()
	return nil
}

// Get returns the cluster whose API server has this URL. The first call makes it, and later ones
// return the same one until Forget. Its clients exist before a kubeconfig is known; their
// requests fail until then. The error describes an invalid URL. It sends no request.
func (d *Destinations) Get(server string) (*Cluster, error) {
	u, err := parseServer(server)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.clusters[u.String()]; c != nil {
		return c, nil
	}
	c, err := d.newCluster(u)
	if err != nil {
		return nil, err
	}
	d.need.Do(func() { close(d.needed) })
	d.clusters[c.Name()] = c
	c.remote.setRoute(d.selectAccess(c.Name()))
	return c, nil
}

// Resolve returns the name of the cluster for a URL: the URL of the kubeconfig that matches it, or
// the URL itself while none matches. Otherwise each path that an author writes would be another
// cluster. matched reports whether a kubeconfig matches now. The error describes an invalid URL.
// It sends no request.
func (d *Destinations) Resolve(server string) (name string, matched bool, err error) {
	u, err := parseServer(server)
	if err != nil {
		return "", false, err
	}
	a, err := d.selectAccess(u.String())
	if err != nil {
		return u.String(), false, nil //nolint:nilerr // the cluster of that name reports it
	}
	return a.server.String(), true, nil
}

// Find returns the cluster whose API server has this URL; nil before Get has made it.
func (d *Destinations) Find(server string) *Cluster {
	name, err := NormalizeServer(server)
	if err != nil { // then there is none
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.clusters[name]
}

// newCluster returns the clients of a remote cluster.
func (d *Destinations) newCluster(server *url.URL) (*Cluster, error) {
	r := newRemote(d.ctx, server, &d.limits, d.opts.Log, d.changed.Add)
	r.requests.userAgent, r.requests.wrap, r.policy = d.opts.UserAgent, d.opts.Wrap, policy{insecure: d.opts.AllowInsecure, proxies: d.opts.AllowProxies}
	httpClient := &http.Client{
		Transport: r.notify.relister.Wrap(withRetryHandling(r)),
		// An API server does not redirect, and no other server may receive the credentials.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	c, err := newCluster(&rest.Config{Host: r.origin, WarningHandlerWithContext: d.opts.Warnings}, httpClient)
	if err != nil {
		r.close()
		return nil, err
	}
	c.remote, r.notify.credentialsChanged = r, c.invalidateAll
	return c, nil
}

// Forget removes the cluster whose API server has this URL: its requests fail, its connections are
// closed, and its goroutines have ended when Forget returns.
func (d *Destinations) Forget(server string) {
	name, err := NormalizeServer(server)
	if err != nil { // then there is none
		return
	}
	d.mu.Lock()
	c := d.clusters[name]
	delete(d.clusters, name)
	d.mu.Unlock()
	if c != nil {
		c.remote.close()
	}
}

// route sets the routes after each change of the Secrets, until ctx ends.
func (d *Destinations) route(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.outdated:
			d.updateRoutes()
		}
	}
}

// updateRoutes sets the route of every cluster from the present Secrets.
func (d *Destinations) updateRoutes() {
	for _, transport := range d.setAllRoutes() {
		utilnet.CloseIdleConnectionsFor(transport) // may take a moment, so not under the mutex
	}
}

// setAllRoutes sets the routes and returns the transports that have become unused.
func (d *Destinations) setAllRoutes() []http.RoundTripper {
	d.mu.Lock()
	defer d.mu.Unlock()
	var old []http.RoundTripper
	for name, c := range d.clusters {
		if transport := c.remote.setRoute(d.selectAccess(name)); transport != nil {
			old = append(old, transport)
		}
	}
	return old
}

// selectAccess returns the credentials for an API server from the Secrets.
func (d *Destinations) selectAccess(server string) (*access, error) {
	sources, failure := d.secrets.sources()
	if sources != nil {
		if a, err := match(server, sources.byOrigin); a != nil || err != nil {
			return a, err
		}
	}
	switch {
	case failure != nil:
		return nil, fmt.Errorf("no kubeconfig for %s: %w", server, failure)
	case sources == nil:
		return nil, fmt.Errorf("no kubeconfig for %s yet: %w", server, ErrStarting)
	}
	return nil, unmatched(server, d.opts.Namespace, sources.all)
}

// notify calls OnChange with the servers of the queue, until ctx ends. A server is in the queue at
// most once.
func (d *Destinations) notify(ctx context.Context) {
	context.AfterFunc(ctx, d.changed.ShutDown)
	for {
		server, shutdown := d.changed.Get()
		if shutdown {
			return
		}
		if ctx.Err() == nil {
			d.opts.OnChange(server)
		}
		d.changed.Done(server)
	}
}
