package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// discoveryTimeout bounds a discovery request for a group and version: the server of an
// aggregated API may not answer.
const discoveryTimeout = 5 * time.Second

// absenceTTL is how long the absence of a kind, or of verbs that Vidra needs, is cached: nothing
// notifies the cache when the kind is installed.
const absenceTTL = 5 * time.Second

// neededVerbs are the verbs that Vidra uses for an object of any kind.
var neededVerbs = []string{"get", "patch", "delete"}

// Mapping describes how the API server serves a kind.
type Mapping struct {
	// GVR is the resource of the kind.
	GVR schema.GroupVersionResource
	// Namespaced is whether the kind is namespaced.
	Namespaced bool
	// MissingVerbs are those of get, patch and delete that the kind does not support, so that
	// Vidra cannot manage its objects. A SubjectAccessReview, for example, can only be created.
	MissingVerbs []string
}

// versionKinds is the cached discovery of a group and version.
type versionKinds struct {
	kinds map[string]Mapping
	// askedAt is the time of the last request.
	askedAt time.Time
}

// serves reports whether a kind is served with all needed verbs.
func (d versionKinds) serves(kind string) bool {
	mapping, found := d.kinds[kind]
	return found && len(mapping.MissingVerbs) == 0
}

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
	// began before one is not cached.
	invalidations map[string]uint64
	// versions caches the discovery of each group and version.
	versions map[schema.GroupVersion]versionKinds
}

// New returns the local cluster, whose API server is that of config. It sends no request. For
// remote clusters, see Destinations.
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
	return throttledTransport{initializingTransport{next}}
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
	if c.metadata, err = metadata.NewForConfigAndClient(config, httpClient); err != nil {
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

// Unreachable returns why a remote cluster cannot be used now, and what to do; nil if it can, or
// if that is not known yet. The message has no credentials. The error wraps ErrStarting while the
// Secrets are read for the first time. It is nil for the local cluster. Unreachable neither
// blocks nor sends a request.
func (c *Cluster) Unreachable() error {
	if c.remote == nil {
		return nil
	}
	return c.remote.unreachable()
}

// MaybeUnreachable reports whether requests to a remote cluster have begun to fail and it is not
// confirmed yet that the cluster is unreachable. That is confirmed soon, without requests of the
// caller. It neither blocks nor sends a request.
func (c *Cluster) MaybeUnreachable() bool { return c.remote != nil && c.remote.health.unconfirmed() }

// Scope returns what the Secret of a remote cluster allows its kubeconfig to be used for. That of
// the local cluster allows everything.
func (c *Cluster) Scope() Scope {
	if c.remote == nil {
		return Scope{}
	}
	if route := c.remote.route.Load(); route != nil && route.access != nil {
		return route.access.scope
	}
	return Scope{}
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

// Mapping returns how the API server serves gvk. The error satisfies meta.IsNoMatchError if it
// does not; any other error means that discovery failed. Mapping sends a request for the first
// kind of each group and version, and for a missing kind or one with missing verbs again after
// absenceTTL.
func (c *Cluster) Mapping(ctx context.Context, gvk schema.GroupVersionKind) (Mapping, error) {
	known, err := c.kinds(ctx, gvk.GroupVersion(), gvk.Kind)
	if err != nil {
		return Mapping{}, fmt.Errorf("ask which kinds %s has: %w", gvk.GroupVersion(), err)
	}
	mapping, found := known.kinds[gvk.Kind]
	if !found {
		return Mapping{}, &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
	}
	return mapping, nil
}

// ServesKind reports whether the API server serves gvk with all verbs that Vidra needs.
func (c *Cluster) ServesKind(ctx context.Context, gvk schema.GroupVersionKind) (bool, error) {
	known, err := c.kinds(ctx, gvk.GroupVersion(), gvk.Kind)
	return known.serves(gvk.Kind), err
}

// ServesResource reports whether the API server serves gvr.
func (c *Cluster) ServesResource(ctx context.Context, gvr schema.GroupVersionResource) (bool, error) {
	known, err := c.kinds(ctx, gvr.GroupVersion(), "")
	for _, mapping := range known.kinds {
		if mapping.GVR == gvr {
			return true, err
		}
	}
	return false, err
}

// Invalidate discards the cached discovery of an API group.
func (c *Cluster) Invalidate(group string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.invalidations[group]++
	for gv := range c.versions {
		if gv.Group == group {
			delete(c.versions, gv)
		}
	}
}

// invalidateAll discards the cached discovery.
func (c *Cluster) invalidateAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.allInvalidations++
	clear(c.versions)
}

// kinds returns the kinds of a group and version; none if the version is not served. An empty
// result is not cached, because owners wait for the version. The same holds for a missing kind
// wanted, after absenceTTL.
func (c *Cluster) kinds(ctx context.Context, gv schema.GroupVersion, wanted string) (versionKinds, error) {
	c.mu.Lock()
	known, cached := c.versions[gv]
	now := time.Now()
	if cached && (wanted == "" || known.serves(wanted) || now.Sub(known.askedAt) < absenceTTL) {
		c.mu.Unlock()
		return known, nil
	}
	if cached { // concurrent callers, and callers after a failure, get the cached kinds
		c.versions[gv] = versionKinds{kinds: known.kinds, askedAt: now}
	}
	// The counters only grow, so that the sum changes with each.
	invalidated := c.invalidations[gv.Group] + c.allInvalidations
	c.mu.Unlock()
	kinds, err := c.discover(ctx, gv)
	if err != nil {
		return versionKinds{}, err
	}
	known = versionKinds{kinds: kinds, askedAt: now}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.invalidations[gv.Group]+c.allInvalidations != invalidated:
	case len(kinds) == 0:
		delete(c.versions, gv)
	default:
		c.versions[gv] = known
	}
	return known, nil
}

// discover asks the API server for the kinds of a group and version; none if the version is not
// served.
func (c *Cluster) discover(ctx context.Context, gv schema.GroupVersion) (map[string]Mapping, error) {
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	list, err := c.discovery.ServerResourcesForGroupVersionWithContext(ctx, gv.String())
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return kindsOf(gv, list), nil // none is what client-go makes of a 404 for the core group
}

// kindsOf reads a discovery document.
func kindsOf(gv schema.GroupVersion, list *metav1.APIResourceList) map[string]Mapping {
	kinds := map[string]Mapping{}
	for _, resource := range list.APIResources {
		if strings.Contains(resource.Name, "/") {
			continue // a subresource
		}
		kinds[resource.Kind] = Mapping{
			GVR: gv.WithResource(resource.Name), Namespaced: resource.Namespaced, MissingVerbs: missingVerbs(resource.Verbs),
		}
	}
	return kinds
}

// missingVerbs returns the needed verbs that a kind does not have. A kind without any verb in
// discovery counts as one with all of them.
func missingVerbs(verbs []string) []string {
	if len(verbs) == 0 {
		return nil
	}
	var lacks []string
	for _, verb := range neededVerbs {
		if !slices.Contains(verbs, verb) {
			lacks = append(lacks, verb)
		}
	}
	return lacks
}
