package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
)

// contentsListers is how many kinds of a namespace are listed at a time.
const contentsListers = 8

// Content is the metadata of an object in a namespace, or of a kind.
type Content struct {
	GVR  schema.GroupVersionResource
	Kind string
	*metav1.PartialObjectMetadata
}

// VisitNamespace calls visit with each object in a namespace that Kubernetes deletes with it, one after the other, in no order: objects of the
// kinds that can be deleted and listed, or deleted as a collection. It fails if a list of such a kind fails, and if it is unknown which
// kinds there are.
func (c *Cluster) VisitNamespace(ctx context.Context, namespace string, visit func(Content)) error {
	lists, err := discovery.ServerPreferredNamespacedResourcesWithContext(ctx, discovery.ToDiscoveryInterfaceWithContext(c.discovery))
	if err != nil {
		return fmt.Errorf("ask which kinds are served: %w", err)
	}
	var mu sync.Mutex
	var listers errgroup.Group
	listers.SetLimit(contentsListers)
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return fmt.Errorf("ask which kinds are served: %w", err)
		}
		for _, r := range list.APIResources {
			can := func(verb string) bool { return slices.Contains(r.Verbs, verb) }
			if strings.Contains(r.Name, "/") || !can("delete") || !can("list") && !can("deletecollection") {
				continue
			}
			listers.Go(func() error {
				return c.visit(ctx, gv.WithResource(r.Name), r.Kind, namespace, func(content Content) {
					mu.Lock()
					defer mu.Unlock()
					visit(content)
				})
			})
		}
	}
	return listers.Wait()
}

// VisitKind calls visit with each object of a kind, in all namespaces. It fails if the list fails.
func (c *Cluster) VisitKind(ctx context.Context, gvr schema.GroupVersionResource, kind string, visit func(Content)) error {
	return c.visit(ctx, gvr, kind, "", visit)
}

// visit calls visit with each object of a resource. It fails for any answer but a list, also where the API server says that the resource does not
// exist or cannot be listed: discovery has it, so that its objects may go with their container.
func (c *Cluster) visit(ctx context.Context, gvr schema.GroupVersionResource, kind, namespace string, visit func(Content)) error {
	_, err := VisitMetadata(ctx, c.metadata.Resource(gvr).Namespace(namespace), func(m *metav1.PartialObjectMetadata) { visit(Content{gvr, kind, m}) })
	if err != nil {
		return fmt.Errorf("list %s: %w", gvr.GroupResource(), err)
	}
	return nil
}

// metadataPage is how many objects a page of VisitMetadata has.
const metadataPage = 500

// VisitMetadata calls visit with the metadata of each object of a resource, in pages. It blocks until all have been
// visited, or a page fails. version is the resourceVersion of the list.
func VisitMetadata(ctx context.Context, of metadata.ResourceInterface, visit func(*metav1.PartialObjectMetadata)) (version string, err error) {
	ctx = InPages(ctx)
	limit := int64(metadataPage)
	list := func(options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
		return of.List(ctx, options)
	}
	err = Pages(&limit, list, func(page *metav1.PartialObjectMetadataList) error {
		version = page.ResourceVersion
		for i := range page.Items {
			visit(&page.Items[i])
		}
		return nil
	})
	return version, err
}
