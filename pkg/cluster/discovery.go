package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	// MissingVerbs are the verbs of get, patch and delete that the kind lacks, so that Vidra cannot manage its objects. A
	// SubjectAccessReview, for example, can only be created.
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

// Mapping returns how the API server serves gvk. The error satisfies meta.IsNoMatchError if gvk
// is unserved; any other error means that discovery failed. Mapping sends a request for the
// first kind of each group and version, and for a missing kind or one with missing verbs again
// after absenceTTL.
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

// kinds returns the kinds of a group and version; empty if the version is unserved. An empty
// result stays uncached, because owners wait for the version. The same holds for a missing kind
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

// discover asks the API server for the kinds of a group and version; empty if the version is
// unserved.
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

// missingVerbs returns the needed verbs that a kind lacks. A kind without any verb in
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

// IsNoResource reports whether an error means that the API server serves no such resource: it names no object.
func IsNoResource(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) && (status.Status().Details == nil || status.Status().Details.Name == "")
}
