package cluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// MappingInAnyVersion is Mapping for callers that have an object rather than a manifest: if the version of gvk is unserved,
// it searches the other versions of its group, which have the same objects. The error satisfies meta.IsNoMatchError if no
// version has it; any other error means that discovery failed. It sends up to one request for the group and for each of its
// versions.
func (c *Cluster) MappingInAnyVersion(ctx context.Context, gvk schema.GroupVersionKind) (Mapping, error) {
	mapping, missing := c.Mapping(ctx, gvk)
	if !meta.IsNoMatchError(missing) {
		return mapping, missing
	}
	versions, err := c.versionsOf(ctx, gvk.Group)
	if err != nil {
		return Mapping{}, fmt.Errorf("ask which versions %s has: %w", gvk.Group, err)
	}
	for _, version := range versions {
		if version == gvk.Version {
			continue
		}
		mapping, err := c.Mapping(ctx, gvk.GroupKind().WithVersion(version))
		if !meta.IsNoMatchError(err) {
			return mapping, err
		}
	}
	return Mapping{}, missing
}

// versionsOf are the versions that the API server serves of a group, the preferred one
// first; empty if the group is unserved.
func (c *Cluster) versionsOf(ctx context.Context, group string) ([]string, error) {
	if group == "" { // which is not like the others, and has had one version ever since
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	found := &metav1.APIGroup{}
	err := c.discovery.RESTClient().Get().AbsPath("/apis", group).Do(ctx).Into(found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	versions := make([]string, 0, len(found.Versions))
	for _, version := range found.Versions {
		versions = append(versions, version.Version)
	}
	return versions, nil
}
