package export

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestDocumentUnchecked: a failed dry run is no change of the object, and an export that was ended has no document.
func TestDocumentUnchecked(t *testing.T) {
	live := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "settings", "namespace": "shop"}, "data": map[string]any{"color": "blue"},
	}}
	kinds := meta.NewDefaultRESTMapper(nil)
	kinds.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNamespace)
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "settings", errors.New("no right"))
	for name, test := range map[string]struct {
		reason string
		ends   bool
		remark string
	}{
		"refused": {reason: "the apply did not change it", remark: "ConfigMap shop/settings: the API server accepts no apply of its document: kubectl apply --dry-run=server names the reason"},
		"ended":   {reason: "nothing is known of the object", ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			defer end()
			client := fake.NewSimpleDynamicClient(runtime.NewScheme(), live)
			client.PrependReactor("patch", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
				if test.ends {
					end()
				}
				return true, nil, forbidden
			})
			c := &Client{objects: &Objects{Dynamic: client, mapper: kinds}}
			document, remark, err := c.document(ctx, live)
			require.Equal(t, test.remark, remark, test.reason)
			require.Equal(t, test.ends, errors.Is(err, context.Canceled), test.reason)
			require.Equal(t, test.ends, document == nil, test.reason)
		})
	}
}
