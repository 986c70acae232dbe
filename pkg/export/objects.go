package export

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// Objects reads and writes the objects of one cluster, of all kinds that it serves, with the rights of one user.
type Objects struct {
	Dynamic dynamic.Interface

	kinds  discovery.CachedDiscoveryInterface
	mapper meta.RESTMapper
}

// NewObjects returns the Objects of the API server of config. It sends no request.
func NewObjects(config *rest.Config) (*Objects, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = -1, 0 // the API server limits, not we
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	cached := memory.NewMemCacheClient(kinds)
	return &Objects{Dynamic: client, kinds: cached, mapper: restmapper.NewDeferredDiscoveryRESTMapper(cached)}, nil
}

// At returns the client for the objects of a kind in a namespace, which counts for namespaced kinds alone.
func (o *Objects) At(gvk schema.GroupVersionKind, namespace string) (dynamic.ResourceInterface, error) {
	mapping, err := o.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		namespace = ""
	}
	return o.Dynamic.Resource(mapping.Resource).Namespace(namespace), nil
}
