package watchregistry

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
)

// gatedDynamic is a dynamic client for an informer behind a gate. It lists and
// watches all namespaces, which client-go spells as the namespace "".
type gatedDynamic struct {
	dynamic.Interface
	gate *gate
}

func (c gatedDynamic) Resource(gvr schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return gatedResource{NamespaceableResourceInterface: c.Interface.Resource(gvr), gate: c.gate}
}

type gatedResource struct {
	dynamic.NamespaceableResourceInterface
	gate *gate
}

func (r gatedResource) Namespace(string) dynamic.ResourceInterface { return r }

func (r gatedResource) List(ctx context.Context, opts metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	return list(ctx, r.gate, func(ctx context.Context) (*unstructured.UnstructuredList, error) {
		return r.NamespaceableResourceInterface.List(ctx, opts)
	})
}

func (r gatedResource) Watch(ctx context.Context, opts metav1.ListOptions) (apiwatch.Interface, error) {
	return r.gate.watch(ctx, opts, r.NamespaceableResourceInterface.Watch)
}

// gatedMetadata is gatedDynamic for metadata.
type gatedMetadata struct {
	metadata.Interface
	gate *gate
}

func (c gatedMetadata) Resource(gvr schema.GroupVersionResource) metadata.Getter {
	return gatedGetter{Getter: c.Interface.Resource(gvr), gate: c.gate}
}

type gatedGetter struct {
	metadata.Getter
	gate *gate
}

func (g gatedGetter) Namespace(string) metadata.ResourceInterface { return g }

func (g gatedGetter) List(ctx context.Context, opts metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	return list(ctx, g.gate, func(ctx context.Context) (*metav1.PartialObjectMetadataList, error) {
		return g.Getter.List(ctx, opts)
	})
}

func (g gatedGetter) Watch(ctx context.Context, opts metav1.ListOptions) (apiwatch.Interface, error) {
	return g.gate.watch(ctx, opts, g.Getter.Watch)
}
