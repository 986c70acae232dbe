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
)

// ErrStarting is why a remote cluster is unreachable while the Secrets with kubeconfigs
// are being read for the first time, and nothing is known to be wrong.
var ErrStarting = errors.New("the Secrets with kubeconfigs are being read")

// DestinationsOptions says where Destinations finds kubeconfigs, and whom it tells.
type DestinationsOptions struct {
	// Secrets reads the Secrets with the label KubeconfigLabel. It is not used before a
	// remote cluster is asked for.
	Secrets typedcorev1.SecretsGetter
	// Namespace is where the Secrets are. Defaults to all namespaces.
	Namespace string
	// AllowInsecure allows kubeconfigs with insecure-skip-tls-verify, or with a server that
	// is reached without TLS. AllowProxies allows those with a proxy-url.
	AllowInsecure, AllowProxies bool
	// OnChange is called with the Name of a remote cluster after it has become
	// unreachable, or can be reached again, or the reason or its credentials have
	// changed. Calls come one at a time, and several changes may be told in one. It is
	// not called before Start. Defaults to nothing.
	OnChange func(server string)
	// Warnings handles the warnings of the API servers. Defaults to that of client-go.
	Warnings rest.WarningHandlerWithContext
	// UserAgent is the header User-Agent of each request. Defaults to that of client-go.
	UserAgent string
	// Log is told of the same changes. Defaults to nothing.
	Log logr.Logger
}

// Destinations knows the remote clusters that objects are applied to. Its methods are
// safe for concurrent use.
type Destinations struct {
	opts    DestinationsOptions
	limits  limits
	secrets *secrets
	changes *changes
	// ctx ends the remote clusters.
	ctx    context.Context
	cancel context.CancelFunc
	// needed is closed when the first remote cluster is asked for.
	needed chan struct{}

	// mu guards clusters. Their routes follow the Secrets while it is held, which sends
	// nothing.
	mu       sync.Mutex
	clusters map[string]*Cluster
}

// NewDestinations makes Destinations without clusters. It starts no goroutine and sends
// no request.
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
		opts: opts, limits: defaultLimits, changes: newChanges(),
		needed: make(chan struct{}), clusters: map[string]*Cluster{},
	}
	d.secrets = newSecrets(opts.Secrets, opts.Namespace, d.follow)
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// Start blocks until ctx ends. Then requests to remote clusters fail, and every
// goroutine has ended when it returns. The Secrets are read from the first Get on, but
// not before Start; until then a remote cluster is unreachable for ErrStarting. It is a
// manager.Runnable, and is called once.
func (d *Destinations) Start(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var telling sync.WaitGroup
	telling.Go(func() { d.changes.run(ctx, d.opts.OnChange) })
	err := d.readSecrets(ctx)
	stop()
	telling.Wait()
	d.mu.Lock()
	d.cancel() // those that are made from now on can do nothing
	clusters := slices.Collect(maps.Values(d.clusters))
	d.mu.Unlock()
	for _, c := range clusters {
		c.remote.close()
	}
	return err
}

// readSecrets reads the Secrets until ctx ends, from when they are needed.
func (d *Destinations) readSecrets(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-d.needed:
		return d.secrets.run(ctx)
	}
}

// Get is the cluster whose API server has this URL. It is made when it is first asked
// for, and the same one is returned until Forget; its clients can be made, and fail
// their requests, while nothing is known of it. The error says what is wrong with the
// URL. It sends no request.
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
	if len(d.clusters) == 0 {
		d.need()
	}
	d.clusters[c.Name()] = c
	c.remote.follow(d.choose(c.Name()))
	return c, nil
}

// Resolve returns the name of the cluster that a URL stands for: the URL of the kubeconfig
// which matches it, and the URL itself while none does. Otherwise each path that an author
// writes would be another cluster. matched reports whether a kubeconfig matches it at present.
// The error says what is wrong with the URL. It sends no request.
func (d *Destinations) Resolve(server string) (name string, matched bool, err error) {
	u, err := parseServer(server)
	if err != nil {
		return "", false, err
	}
	a, err := d.choose(u.String())
	if err != nil {
		return u.String(), false, nil //nolint:nilerr // the cluster of that name says it
	}
	return a.server.String(), true, nil
}

// Find is the cluster whose API server has this URL; nil unless it was asked for before,
// see Get.
func (d *Destinations) Find(server string) *Cluster {
	name, err := NormalizeServer(server)
	if err != nil { // then there is none
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.clusters[name]
}

// need has the Secrets read.
func (d *Destinations) need() {
	select {
	case <-d.needed:
	default:
		close(d.needed)
	}
}

// newCluster makes the clients of a remote cluster.
func (d *Destinations) newCluster(server *url.URL) (*Cluster, error) {
	r := newRemote(d.ctx, server, &d.limits, d.opts.Log, d.changes.add)
	r.userAgent, r.policy = d.opts.UserAgent, policy{insecure: d.opts.AllowInsecure, proxies: d.opts.AllowProxies}
	httpClient := &http.Client{
		Transport: considerate(r),
		// An API server redirects nobody, and credentials are for nobody else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	c, err := newCluster(&rest.Config{Host: r.origin, WarningHandlerWithContext: d.opts.Warnings}, httpClient)
	if err != nil {
		r.close()
		return nil, err
	}
	c.remote, r.rerouted = r, c.invalidateAll
	return c, nil
}

// Forget frees the cluster whose API server has this URL: its requests fail, its
// connections are closed, and its goroutines have ended when it returns.
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

// follow has every cluster follow what the Secrets say now.
func (d *Destinations) follow() {
	for _, transport := range d.followAll() {
		utilnet.CloseIdleConnectionsFor(transport) // may take a moment, so not under the mutex
	}
}

// followAll is follow, but for the transports that are not used any more, which it
// returns.
func (d *Destinations) followAll() []http.RoundTripper {
	d.mu.Lock()
	defer d.mu.Unlock()
	var old []http.RoundTripper
	for name, c := range d.clusters {
		if transport := c.remote.follow(d.choose(name)); transport != nil {
			old = append(old, transport)
		}
	}
	return old
}

// choose finds the way to an API server in the Secrets.
func (d *Destinations) choose(server string) (*access, error) {
	sources, read, failure := d.secrets.known()
	if read {
		if a, err := match(server, sources); a != nil || err != nil {
			return a, err
		}
	}
	switch {
	case failure != nil:
		return nil, fmt.Errorf("no kubeconfig for %s: %w", server, failure)
	case !read:
		return nil, fmt.Errorf("no kubeconfig for %s yet: %w", server, ErrStarting)
	}
	return nil, unmatched(server, d.opts.Namespace, sources)
}

// changes are the servers of which there is something to tell.
type changes struct {
	// wake holds a token when there are some.
	wake chan struct{}

	// mu guards servers. Nothing else is locked while it is held.
	mu      sync.Mutex
	servers []string
}

func newChanges() *changes { return &changes{wake: make(chan struct{}, 1)} }

// add has a server told of soon. It does not block.
func (c *changes) add(server string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Contains(c.servers, server) {
		return
	}
	c.servers = append(c.servers, server)
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// take removes the servers that are to be told of.
func (c *changes) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	servers := c.servers
	c.servers = nil
	return servers
}

// run tells of servers until ctx ends.
func (c *changes) run(ctx context.Context, tell func(string)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		}
		for _, server := range c.take() {
			if ctx.Err() == nil {
				tell(server)
			}
		}
	}
}
