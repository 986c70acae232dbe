package access

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

func TestObjectOutOfScope(t *testing.T) {
	t.Parallel()
	id := func(group, kind, namespace, name string) object.Identity {
		return object.Identity{GroupKind: schema.GroupKind{Group: group, Kind: kind}, Namespace: namespace, Name: name}
	}
	tests := map[string]struct {
		reason string
		id     object.Identity
		names  []string
		want   string
	}{
		"Unlimited":         {"Nothing is out of scope.", id("", "Node", "", "one"), nil, ""},
		"Listed":            {"Its namespace is.", id("", "ConfigMap", "shop", "bank"), []string{"shop"}, ""},
		"Unlisted":          {"Its name does not count.", id("", "ConfigMap", "bank", "shop"), []string{"shop"}, "namespace bank"},
		"Cluster-scoped":    {"It is in no namespace.", id("rbac.authorization.k8s.io", "ClusterRole", "", "shop"), []string{"shop"}, "without a namespace"},
		"Listed Namespace":  {"It counts as an object in itself.", id("", "Namespace", "", "shop"), []string{"shop"}, ""},
		"Another Namespace": {"Likewise.", id("", "Namespace", "", "bank"), []string{"shop"}, "namespace bank"},
		"Only named so":     {"It is of another group.", id("example.com", "Namespace", "", "shop"), []string{"shop"}, "without a namespace"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scope, err := cluster.LocalScope(tc.names...)
			require.NoError(t, err)
			why := ObjectOutOfScope(scope, tc.id)
			if tc.want == "" {
				require.Nil(t, why, tc.reason)
				return
			}
			require.NotNil(t, why, tc.reason)
			require.Equal(t, v1alpha1.ReasonOutOfScope, why.Reason)
			require.Contains(t, why.Message, tc.want)
		})
	}
}

func TestOutOfScope(t *testing.T) {
	t.Parallel()
	scope, err := cluster.LocalScope("shop")
	require.NoError(t, err)
	in := func(namespace string) *v1alpha1.VidraResource {
		return &v1alpha1.VidraResource{Spec: v1alpha1.VidraResourceSpec{Destination: v1alpha1.Destination{Namespace: namespace}}}
	}
	require.Nil(t, OutOfScope(cluster.Scope{}, in("bank")), "nothing is limited")
	require.Nil(t, OutOfScope(scope, in("shop")))
	require.Nil(t, OutOfScope(scope, in("")), "each object counts")
	why := OutOfScope(scope, in("bank"))
	require.NotNil(t, why)
	require.Equal(t, v1alpha1.ReasonOutOfScope, why.Reason)
	require.Contains(t, why.Message, "spec.destination.namespace: ")
}
