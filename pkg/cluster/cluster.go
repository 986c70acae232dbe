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

// discoveryTimeout is how long the API server may take to say which kinds a
// group and version has: behind an aggregated API there may be nobody.
const discoveryTimeout = 5 * time.Second

// absence is how long a kind that was not among those of a group and version, or
// could not be kept, is believed to be so: nobody need tell when it comes.
const absence = 5 * time.Second

// neededVerbs are what Vidra does with an object of any kind.
var neededVerbs = []string{"get", "patch", "delete"}

// Mapping is how the API server serves a kind.
type Mapping struct {
	// GVR is the resource of the kind.
	GVR schema.GroupVersionResource
	// Namespaced says whether objects of the kind live in a namespace.
	Namespaced bool
	// Lacks are the verbs without which no object of the kind can be kept: get, patch
	// or delete. A review of rights, for example, can only be created. It is empty for
	// a kind that can be kept.
	Lacks []string
}

// document is what the API server said of a group and version.
type document struct {
	kinds map[string]Mapping
	// asked is when it was asked for last.
	asked time.Time
}

// serves says whether a kind is served, and objects of it can be kept.
func (d document) serves(kind string) bool {
	mapping, found := d.kinds[kind]
	return found && len(mapping.Lacks) == 0
}

// Cluster is one API server. Its methods are safe for concurrent use.
type Cluster struct {
	// remote is nil for the local cluster.
	remote *remote
	// config and http are what clients are made of.
	config    *rest.Config
	http      *http.Client
	dynamic   dynamic.Interface
	metadata  metadata.Interface
	discovery *discovery.DiscoveryClient

	// mu guards the fields below.
	mu sync.Mutex
	// allInvalidations counts the calls of invalidateAll.
	allInvalidations uint64
	// invalidations counts the calls of Invalidate for each group: what was asked
	// for before one is not kept after it.
	invalidations map[string]uint64
	// versions holds what was said of each group and version that was asked for.
	versions map[schema.GroupVersion]document
}

// New makes the clients for the local API server, which is that of config. It sends
// no request. Destinations makes those for remote ones.
func New(config *rest.Config) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.Wrap(considerate)
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make the HTTP client of %s: %w", config.Host, err)
	}
	return newCluster(config, httpClient)
}

// considerate has the clients wait for an API server as long as is right.
func considerate(next http.RoundTripper) http.RoundTripper { return frank{eager{next}} }

// newCluster makes the clients that send their requests through httpClient.
func newCluster(config *rest.Config, httpClient *http.Client) (*Cluster, error) {
	config.QPS, config.Burst = -1, 0 // the API server limits, not we
	c := &Cluster{
		config: config, http: httpClient,
		invalidations: map[string]uint64{}, versions: map[schema.GroupVersion]document{},
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

// Name is the normalized URL of a remote cluster, see NormalizeServer, and empty for
// the local one.
func (c *Cluster) Name() string {
	if c.remote == nil {
		return ""
	}
	return c.remote.server
}

// Unreachable says why nothing can be applied to a remote cluster now, and what to
// do; nil if something can, or if that is not known yet. It is for people, and has no
// credentials in it. The error wraps ErrStarting while nothing is wrong, but the
// Secrets are still being read. The local cluster is never unreachable. It neither blocks nor
// sends a request.
func (c *Cluster) Unreachable() error {
	if c.remote == nil {
		return nil
	}
	return c.remote.unreachable()
}

// Doubtful says whether requests to a remote cluster fail since a moment ago, so that it
// is not known yet whether it is unreachable. That is known soon, and without further
// requests of others. It neither blocks nor sends a request.
func (c *Cluster) Doubtful() bool { return c.remote != nil && c.remote.health.doubtful() }

// Scope is for what the Secret of a remote cluster lets its kubeconfig be used at present.
// That of the local cluster allows everything.
func (c *Cluster) Scope() Scope {
	if c.remote == nil {
		return Scope{}
	}
	if way := c.remote.route.Load(); way != nil && way.access != nil {
		return way.access.scope
	}
	return Scope{}
}

// Dynamic is the client for objects of any kind.
func (c *Cluster) Dynamic() dynamic.Interface { return c.dynamic }

// Metadata is the client for the metadata of objects of any kind.
func (c *Cluster) Metadata() metadata.Interface { return c.metadata }

// As makes a client for objects of any kind whose requests the API server takes for
// those of username. It shares the connections of the others. A user that the
// kubeconfig itself impersonates is replaced. It sends no request.
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

// Mapping tells how the API server serves gvk. The error satisfies
// meta.IsNoMatchError if it does not serve it; any other error means that it
// could not say. It sends a request for the first kind of each group and version.
// For one that is missing, or lacks verbs, it sends another one if the last is some
// seconds old.
func (c *Cluster) Mapping(ctx context.Context, gvk schema.GroupVersionKind) (Mapping, error) {
	said, err := c.kinds(ctx, gvk.GroupVersion(), gvk.Kind)
	if err != nil {
		return Mapping{}, fmt.Errorf("ask which kinds %s has: %w", gvk.GroupVersion(), err)
	}
	mapping, found := said.kinds[gvk.Kind]
	if !found {
		return Mapping{}, &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
	}
	return mapping, nil
}

// ServesKind tells whether the API server serves gvk, and objects of it can be kept.
func (c *Cluster) ServesKind(ctx context.Context, gvk schema.GroupVersionKind) (bool, error) {
	said, err := c.kinds(ctx, gvk.GroupVersion(), gvk.Kind)
	return said.serves(gvk.Kind), err
}

// ServesResource tells whether the API server serves gvr.
func (c *Cluster) ServesResource(ctx context.Context, gvr schema.GroupVersionResource) (bool, error) {
	said, err := c.kinds(ctx, gvr.GroupVersion(), "")
	for _, mapping := range said.kinds {
		if mapping.GVR == gvr {
			return true, err
		}
	}
	return false, err
}

// Invalidate forgets what discovery said of an API group.
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

// invalidateAll forgets what discovery said.
func (c *Cluster) invalidateAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.allInvalidations++
	clear(c.versions)
}

// kinds are the kinds that the API server serves of a group and version; none
// if it does not serve the version. That none are served is not kept: what is
// missing is what somebody waits for. So is the kind wanted, if there is one.
func (c *Cluster) kinds(ctx context.Context, gv schema.GroupVersion, wanted string) (document, error) {
	c.mu.Lock()
	said, known := c.versions[gv]
	now := time.Now()
	if known && (wanted == "" || said.serves(wanted) || now.Sub(said.asked) < absence) {
		c.mu.Unlock()
		return said, nil
	}
	if known { // who asks meanwhile, or after a failure, is told the same as before
		c.versions[gv] = document{kinds: said.kinds, asked: now}
	}
	// Neither goes down, so that the sum changes with each.
	invalidated := c.invalidations[gv.Group] + c.allInvalidations
	c.mu.Unlock()
	kinds, err := c.discover(ctx, gv)
	if err != nil {
		return document{}, err
	}
	said = document{kinds: kinds, asked: now}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.invalidations[gv.Group]+c.allInvalidations != invalidated:
	case len(kinds) == 0:
		delete(c.versions, gv)
	default:
		c.versions[gv] = said
	}
	return said, nil
}

// discover asks the API server which kinds it serves of a group and version; none if
// it does not serve the version.
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
			GVR: gv.WithResource(resource.Name), Namespaced: resource.Namespaced, Lacks: lacking(resource.Verbs),
		}
	}
	return kinds
}

// lacking are the needed verbs that are not among those of a kind. An API server that
// names none does not say what can be done.
func lacking(verbs []string) []string {
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
