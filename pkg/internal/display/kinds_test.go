package display

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestNamesOfKinds(t *testing.T) {
	core, knative := schema.GroupKind{Kind: "Service"}, schema.GroupKind{Group: "serving.knative.dev", Kind: "Service"}
	capi, cnpg := schema.GroupKind{Group: "cluster.example", Kind: "Cluster"}, schema.GroupKind{Group: "postgres.example", Kind: "Cluster"}
	deployment := schema.GroupKind{Group: "apps", Kind: "Deployment"}
	tests := map[string]struct {
		reason string
		beside []schema.GroupKind
		kind   schema.GroupKind
		want   string
	}{
		"core":      {reason: "the kind of Kubernetes is the one that readers expect", kind: core, want: "Service shop/web"},
		"built in":  {reason: "a kind of Kubernetes in one of its groups is not ambiguous", kind: deployment, want: "Deployment shop/web"},
		"namesake":  {reason: "a kind of another group reads like the one of Kubernetes", kind: knative, want: "Service.serving.knative.dev shop/web"},
		"own":       {reason: "a kind that no other group has needs no group", kind: capi, want: "Cluster shop/web"},
		"same":      {reason: "a kind is not ambiguous beside itself", beside: []schema.GroupKind{capi, capi}, kind: capi, want: "Cluster shop/web"},
		"two":       {reason: "each of two gets its group", beside: []schema.GroupKind{capi, cnpg}, kind: capi, want: "Cluster.cluster.example shop/web"},
		"other":     {reason: "in any order", beside: []schema.GroupKind{capi, cnpg}, kind: cnpg, want: "Cluster.postgres.example shop/web"},
		"core too":  {reason: "the core group has no name", beside: []schema.GroupKind{core, knative}, kind: core, want: "Service shop/web"},
		"third one": {reason: "a third group keeps them ambiguous", beside: []schema.GroupKind{capi, cnpg, capi}, kind: capi, want: "Cluster.cluster.example shop/web"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var kinds Kinds
			for _, kind := range tt.beside {
				kinds.Add(kind)
			}
			require.Equal(t, tt.want, kinds.Name(tt.kind, "shop", "web"), tt.reason)
		})
	}
	require.Equal(t, "Service.serving.knative.dev shop/web", NameOf(knative, "shop", "web"))
	require.Equal(t, "Cluster shop/web", NameOf(capi, "shop", "web"))
	require.Equal(t, "Cluster.cluster.example shop/web", QualifiedNameOf(capi, "shop", "web"))
}
