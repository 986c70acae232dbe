package insight

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// TestMeant proposes what is in the inventories instead of an object that is not.
func TestMeant(t *testing.T) {
	vr := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	for _, e := range [][3]string{{"Deployment", "web", "web"}, {"Deployment", "shop", "checkout"}, {"StatefulSet", "shop", "database"}} {
		vr.Status.ManagedResources = append(vr.Status.ManagedResources, v1alpha1.ManagedResourceStatus{APIVersion: "apps/v1", Kind: e[0], Namespace: e[1], Name: e[2]})
	}
	all := []*v1alpha1.VidraResource{vr}
	tests := map[string]struct {
		reason, namespace, name, want string
	}{
		"namespace": {reason: "that of the context is another one", namespace: "default", name: "web", want: "; VidraResource shop manages Deployment web/web: add -n web"},
		"name":      {reason: "a typing error", namespace: "web", name: "wbe", want: "; did you mean Deployment web/web?"},
		"both":      {reason: "in any namespace", namespace: "default", name: "chekout", want: "; did you mean Deployment shop/checkout?"},
		"kind":      {reason: "of another kind are no proposals", namespace: "shop", name: "databse", want: ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			id := object.Identity{GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, Namespace: tt.namespace, Name: tt.name}
			require.Equal(t, tt.want, meant(id, all), tt.reason)
		})
	}
	require.Equal(t, []string{"web", "shop", "shop"}, namespacesIn(all))
	require.EqualError(t, DefaultProgram.noVidraResource("shpo", all), "VidraResource shpo does not exist; `vidra get` lists those that do; did you mean shop?")
}
