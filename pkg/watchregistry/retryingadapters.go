package watchregistry

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
)

// retryingDynamic is a dynamic client for an informer that sends its LIST and WATCH through
// a retryingClient.
type retryingDynamic struct {
	dynamic.Interface
	requests *retryingClient
}

func (c retryingDynamic) Resource(gvr schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return retryingNamespaces{NamespaceableResourceInterface: c.Interface.Resource(gvr), requests: c.requests}
}

// retryingNamespaces is the client of a resource. An informer names the namespace in each request: "" for
// all of them.
type retryingNamespaces struct {
	dynamic.NamespaceableResourceInterface
	requests *retryingClient
}

func (r retryingNamespaces) Namespace(name string) dynamic.ResourceInterface {
	return retryingResource{ResourceInterface: r.NamespaceableResourceInterface.Namespace(name), requests: r.requests}
}

type retryingResource struct {
	dynamic.ResourceInterface
	requests *retryingClient
}

func (r retryingResource) List(ctx context.Context, opts metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	return list(ctx, r.requests, opts, func(ctx context.Context) (*unstructured.UnstructuredList, error) {
		return r.ResourceInterface.List(ctx, opts)
	})
}

func (r retryingResource) Watch(ctx context.Context, opts metav1.ListOptions) (apiwatch.Interface, error) {
	return r.requests.watch(ctx, opts, r.ResourceInterface.Watch, func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		return r.ResourceInterface.List(ctx, opts)
	})
}

// retryingMetadata is like retryingDynamic, for the metadata of cluster-scoped resources.
type retryingMetadata struct {
	metadata.Interface
	requests *retryingClient
}

func (c retryingMetadata) Resource(gvr schema.GroupVersionResource) metadata.Getter {
	return retryingGetter{Getter: c.Interface.Resource(gvr), requests: c.requests}
}

type retryingGetter struct {
	metadata.Getter
	requests *retryingClient
}

func (g retryingGetter) Namespace(string) metadata.ResourceInterface { return g }

func (g retryingGetter) List(ctx context.Context, opts metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	return list(ctx, g.requests, opts, func(ctx context.Context) (*metav1.PartialObjectMetadataList, error) {
		return g.Getter.List(ctx, opts)
	})
}

func (g retryingGetter) Watch(ctx context.Context, opts metav1.ListOptions) (apiwatch.Interface, error) {
	return g.requests.watch(ctx, opts, g.Getter.Watch, func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		return g.Getter.List(ctx, opts)
	})
}
