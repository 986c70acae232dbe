package watchregistry

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// observedClient reports every LIST that fails and the outcome of every WATCH,
// for all namespaces, which is all that an informer sends. The reflector's own error
// handler tells failures only; that a watch works again is told by nothing else.
type observedClient struct {
	dynamic.Interface
	observe func(error)
}

func (c observedClient) Resource(gvr schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return observedResource{NamespaceableResourceInterface: c.Interface.Resource(gvr), observe: c.observe}
}

type observedResource struct {
	dynamic.NamespaceableResourceInterface
	observe func(error)
}

// Namespace returns the resource itself: the informers of this package watch
// all namespaces, which client-go spells as the namespace "".
func (r observedResource) Namespace(string) dynamic.ResourceInterface { return r }

func (r observedResource) List(ctx context.Context, opts metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	list, err := r.NamespaceableResourceInterface.List(ctx, opts)
	if err != nil {
		r.observe(err) // a LIST that succeeds is no watch yet
	}
	return list, err
}

func (r observedResource) Watch(ctx context.Context, opts metav1.ListOptions) (apiwatch.Interface, error) {
	w, err := r.NamespaceableResourceInterface.Watch(ctx, opts)
	r.observe(err)
	return w, err
}
