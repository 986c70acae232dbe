package cluster

import (
	"errors"
	"fmt"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// Cluster is a cluster with its clients. Its methods are safe for concurrent use.
type Cluster struct {
	// remote is nil for the local cluster.
	remote *remote
	// config and http are used to make clients.
	config    *rest.Config
	http      *http.Client
	dynamic   dynamic.Interface
	metadata  metadata.Interface
	discovery *discovery.DiscoveryClient

	// mu guards the fields below.
	mu sync.Mutex
	// allInvalidations counts the calls of invalidateAll.
	allInvalidations uint64
	// invalidations counts the calls of Invalidate for each group. A discovery request that
	// began before one stays uncached.
	invalidations map[string]uint64
	// versions caches the discovery of each group and version.
	versions map[schema.GroupVersion]versionKinds
	// aggregated has the groups and versions, with the knowledge whether an extension API server serves them.
	aggregated map[schema.GroupVersion]bool
}

// New returns the local cluster, with the API server of config. It sends no request. For remote clusters, see Destinations.
func New(config *rest.Config) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.Wrap(withRetryHandling)
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make the HTTP client of %s: %w", config.Host, err)
	}
	return newCluster(config, httpClient)
}

// withRetryHandling wraps a transport so that throttled requests are retried as the callers need.
func withRetryHandling(next http.RoundTripper) http.RoundTripper {
	return pageTransport{throttledTransport{initializingTransport{LimitRetryAfter(next)}}}
}

// newCluster returns a cluster whose clients use httpClient.
func newCluster(config *rest.Config, httpClient *http.Client) (*Cluster, error) {
	config.QPS, config.Burst = -1, 0 // the API server limits, not we
	c := &Cluster{
		config: config, http: httpClient,
		invalidations: map[string]uint64{}, versions: map[schema.GroupVersion]versionKinds{},
	}
	var err error
	if c.dynamic, err = dynamic.NewForConfigAndClient(config, httpClient); err != nil {
		return nil, fmt.Errorf("make the dynamic client of %s: %w", config.Host, err)
	}
	quiet := rest.CopyConfig(config) // it lists kinds that no manifest has named, such as Endpoints
	quiet.WarningHandlerWithContext = rest.NoWarnings{}
	if c.metadata, err = metadata.NewForConfigAndClient(quiet, httpClient); err != nil {
		return nil, fmt.Errorf("make the metadata client of %s: %w", config.Host, err)
	}
	if c.discovery, err = discovery.NewDiscoveryClientForConfigAndClient(config, httpClient); err != nil {
		return nil, fmt.Errorf("make the discovery client of %s: %w", config.Host, err)
	}
	return c, nil
}

// Name returns the normalized URL of a remote cluster (see NormalizeServer), and an empty name
// for the local one.
func (c *Cluster) Name() string {
	if c.remote == nil {
		return ""
	}
	return c.remote.server
}

// Unreachable returns the fault that keeps a remote cluster from use, and the next step; nil if it is usable, or if that is
// still unknown. The message has no credentials. The error wraps ErrStarting while the Secrets are read for the first time. It
// is nil for the local cluster. Unreachable neither blocks nor sends a request.
func (c *Cluster) Unreachable() error {
	if c.remote == nil {
		return nil
	}
	return c.remote.unreachable()
}

// MaybeUnreachable reports whether requests to a remote cluster have begun to fail while it is
// still to be confirmed that the cluster is unreachable. That is confirmed soon, without
// requests of the caller. It neither blocks nor sends a request.
func (c *Cluster) MaybeUnreachable() bool { return c.remote != nil && c.remote.health.unconfirmed() }

// Scope returns the limits that the Secret of a remote cluster sets for its kubeconfig. The local cluster has none.
func (c *Cluster) Scope() Scope {
	if c.remote == nil {
		return Scope{}
	}
	if route := c.remote.route.Load(); route != nil && route.access != nil {
		return route.access.scope
	}
	return Scope{}
}

// Kubeconfig returns a digest of the kubeconfig of a remote cluster, at most 32 bytes, and namespace/name of the Secret that
// has it. Both are empty for the local cluster, and while the kubeconfig is missing. The digest is a plain hash: who knows
// it can try to guess a password.
func (c *Cluster) Kubeconfig() (digest, secret string) {
	if c.remote == nil {
		return "", ""
	}
	if route := c.remote.route.Load(); route != nil && route.access != nil {
		return route.digest, route.access.secret
	}
	return "", ""
}

// Dynamic returns the client for objects of any kind.
func (c *Cluster) Dynamic() dynamic.Interface { return c.dynamic }

// Metadata returns the client for the metadata of objects of any kind.
func (c *Cluster) Metadata() metadata.Interface { return c.metadata }

// As returns a client for objects of any kind that impersonates username. It shares the
// connections of the other clients. It replaces the user that the kubeconfig impersonates. It
// sends no request.
func (c *Cluster) As(username string) (dynamic.Interface, error) {
	if username == "" { // would not impersonate at all
		return nil, errors.New("impersonate a user: the name is empty")
	}
	as := &rest.Config{Impersonate: rest.ImpersonationConfig{UserName: username}}
	impersonating, err := rest.HTTPWrappersForConfig(as, c.http.Transport)
	if err != nil {
		return nil, fmt.Errorf("impersonate %s: %w", username, err)
	}
	httpClient := *c.http
	httpClient.Transport = impersonating
	client, err := dynamic.NewForConfigAndClient(c.config, &httpClient)
	if err != nil {
		return nil, fmt.Errorf("make the dynamic client of %s at %s: %w", username, c.config.Host, err)
	}
	return client, nil
}
