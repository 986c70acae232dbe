package cluster

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// Definitions is the resource of CustomResourceDefinitions.
var Definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// automanaged is the label of the APIServices that kube-apiserver makes for its own groups and for the groups of
// CustomResourceDefinitions (k8s.io/kube-aggregator/pkg/controllers/autoregister). The APIServices of extension API servers
// lack it.
const automanaged = "kube-aggregator.kubernetes.io/automanaged"

// Aggregated reports whether an extension API server serves gv. It sends a request for each gv once, and none for the groups
// of Kubernetes.
func (c *Cluster) Aggregated(ctx context.Context, gv schema.GroupVersion) (bool, error) {
	if scheme.Scheme.IsGroupRegistered(gv.Group) {
		return false, nil
	}
	c.mu.Lock()
	known, asked := c.aggregated[gv]
	c.mu.Unlock()
	if asked {
		return known, nil
	}
	service, err := c.metadata.Resource(apiServices).Get(ctx, gv.Version+"."+gv.Group, metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("read APIService %s.%s: %w", gv.Version, gv.Group, err)
	}
	_, local := service.Labels[automanaged]
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.aggregated == nil {
		c.aggregated = map[schema.GroupVersion]bool{}
	}
	c.aggregated[gv] = !local
	return !local, nil
}

// DefinitionOf names the CustomResourceDefinition of a kind, or an APIService of an extension API server for its group, whether
// they serve the kind at present or not; empty if both are missing. It fails if that is unknown.
func (c *Cluster) DefinitionOf(ctx context.Context, kind schema.GroupKind) (string, error) {
	if scheme.Scheme.IsGroupRegistered(kind.Group) {
		return "", nil
	}
	of := "." + kind.Group
	var names []string
	if _, err := VisitMetadata(ctx, c.metadata.Resource(Definitions), func(m *metav1.PartialObjectMetadata) {
		if strings.HasSuffix(m.Name, of) {
			names = append(names, m.Name)
		}
	}); err != nil {
		return "", fmt.Errorf("list the CustomResourceDefinitions: %w", err)
	}
	for _, name := range names {
		definition, err := c.dynamic.Resource(Definitions).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return "", fmt.Errorf("read CustomResourceDefinition %s: %w", name, err)
		}
		group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
		defined, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
		if group == kind.Group && defined == kind.Kind {
			return "CustomResourceDefinition " + name, nil
		}
	}
	service := ""
	if _, err := VisitMetadata(ctx, c.metadata.Resource(apiServices), func(m *metav1.PartialObjectMetadata) {
		if _, local := m.Labels[automanaged]; !local && service == "" && strings.HasSuffix(m.Name, of) {
			service = "APIService " + m.Name
		}
	}); err != nil {
		return "", fmt.Errorf("list the APIServices: %w", err)
	}
	return service, nil
}
