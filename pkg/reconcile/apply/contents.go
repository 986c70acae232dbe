package apply

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
)

// Contents returns the contents of a Namespace or CustomResourceDefinition, read with the rights of Vidra itself. It fails if
// some of them are unknown.
func (a *Applier) Contents(ctx context.Context, container *unstructured.Unstructured) (owners.Inside, error) {
	return a.Finder.Contents(ctx, a.Destination, container)
}
