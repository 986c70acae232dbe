package manifest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/internal/display"
)

// namespaced tells which kinds of the tests live in namespaces.
func namespaced(gvk schema.GroupVersionKind) bool { return gvk.Kind == "ConfigMap" }

func TestResolve(t *testing.T) {
	cases := map[string]struct {
		reason           string
		text             string
		defaultNamespace string
		want             []string // Kind namespace/name
		err              string
	}{
		"Default": {
			reason:           "a namespaced object without a namespace goes to the destination's",
			text:             configMap("a"),
			defaultNamespace: "shop",
			want:             []string{"ConfigMap shop/a"},
		},
		"Fallback": {
			reason: "without one it goes where kubectl would put it",
			text:   configMap("a"),
			want:   []string{"ConfigMap default/a"},
		},
		"OwnNamespace": {
			reason:           "a namespace that the manifest names stays",
			text:             "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: own}",
			defaultNamespace: "shop",
			want:             []string{"ConfigMap own/a"},
		},
		"ClusterScoped": {
			reason:           "a cluster-scoped object has no namespace, also if the manifest names one",
			text:             "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: b, namespace: x}",
			defaultNamespace: "shop",
			want:             []string{"Namespace a", "ClusterRole b"},
		},
		"DuplicateByDefault": {
			reason:           "one object says what the other leaves to the default",
			text:             configMap("a") + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}",
			defaultNamespace: "shop",
			err:              "document 2, line 6: ConfigMap shop/a: the manifest holds this object twice, first at document 1, line 1: remove one",
		},
		"NoDuplicateElsewhere": {
			reason:           "with another default they are two",
			text:             configMap("a") + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}",
			defaultNamespace: "other",
			want:             []string{"ConfigMap other/a", "ConfigMap shop/a"},
		},
		"DuplicateByScope": {
			reason: "in two namespaces a cluster-scoped object is still one",
			text:   "apiVersion: a/v1\nkind: ClusterRole\nmetadata: {name: b, namespace: x}\n---\napiVersion: a/v1\nkind: ClusterRole\nmetadata: {name: b}",
			err:    "document 2, line 5: ClusterRole b: the manifest holds this object twice, first at document 1, line 1: remove one",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects, err := Parse(tc.text, Options{})
			require.NoError(t, err)
			before := marshalObjects(t, objects)

			placed, err := Resolve(objects, tc.defaultNamespace, namespaced)
			require.Equal(t, before, marshalObjects(t, objects), "the given objects are not changed")
			if tc.err != "" {
				require.EqualError(t, err, tc.err, tc.reason)
				require.Nil(t, placed, "nothing of a wrong manifest may be applied")
				return
			}
			require.NoError(t, err, tc.reason)
			var got []string
			for _, o := range placed {
				got = append(got, display.Name(o.GetKind(), o.GetNamespace(), o.GetName()))
			}
			require.Equal(t, tc.want, got, tc.reason)
		})
	}
}

func TestSort(t *testing.T) {
	objects, err := Parse("apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: hook}\n"+
		"---\napiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: api}\n---\n"+configMap("a")+
		"---\napiVersion: acme.io/v1\nkind: Namespace\nmetadata: {name: not-core}\n"+
		"---\napiVersion: apiextensions.k8s.io/v1beta1\nkind: CustomResourceDefinition\nmetadata: {name: crd1}\n"+
		"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: ns1}\n"+
		"---\n"+configMap("b")+
		"---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: crd2}\n"+
		"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: ns0}\n", Options{})
	require.NoError(t, err)

	Sort(objects, namespaced)
	var names []string
	var stages []Stage
	for _, o := range objects {
		names = append(names, o.GetName())
		stages = append(stages, StageOf(o.GroupVersionKind().GroupKind(), namespaced(o.GroupVersionKind())))
	}
	require.Equal(t, []string{"ns1", "ns0", "crd1", "crd2", "not-core", "a", "b", "hook", "api"}, names,
		"stages come in order, and within a stage the manifest's order stays")
	require.IsNonDecreasing(t, stages)
	require.Equal(t, "Namespaces CRDs Cluster Namespaced Webhooks", fmt.Sprint(StageNamespaces, " ", StageCRDs, " ", StageCluster, " ", StageNamespaced, " ", StageWebhooks))
}
