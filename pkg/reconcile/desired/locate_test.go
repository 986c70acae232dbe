package desired

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// TestLocateFindsIgnoreRules: a located object has the rules of its VidraResource, also one whose manifest has no namespace.
func TestLocateFindsIgnoreRules(t *testing.T) {
	t.Parallel()
	obj := fixture.UnstructuredOf(t, webDeployment)
	id := object.IdentityIn(obj)
	obj.SetNamespace("")
	text, err := obj.MarshalJSON()
	require.NoError(t, err)
	web := v1alpha1.IgnoreTarget{Namespace: "shop", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}
	api := v1alpha1.IgnoreTarget{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "api"}}}
	vr := &v1alpha1.VidraResource{Spec: v1alpha1.VidraResourceSpec{
		Destination: v1alpha1.Destination{Namespace: "shop"},
		Drift: &v1alpha1.DriftPolicy{Ignore: []v1alpha1.IgnoreRule{
			{Target: web, Paths: []string{"/spec/template"}},
			{Target: web, Paths: []string{"/spec/replicas"}, Managers: []string{"hpa"}},
			{Target: api, Paths: []string{"/metadata"}},
		}},
	}}
	found, err := Locate(vr, []Part{{text: string(text)}}, id)
	require.NoError(t, err)
	require.NotNil(t, found)
	for _, test := range []struct {
		manager string
		path    []string
		want    bool
		reason  string
	}{
		{"kubectl", []string{"spec", "template", "spec"}, true, "a rule covers what is below its path"},
		{"kubectl", []string{"spec", "replicas"}, false, "a rule for one manager is not for another"},
		{"hpa", []string{"spec", "replicas"}, true, "a rule for a manager"},
		{"kubectl", []string{"metadata", "labels"}, false, "a rule for objects with other labels"},
	} {
		require.Equal(t, test.want, found.Exemptions.Exempts(test.manager, test.path), test.reason)
	}

	first, second := id, id
	first.Namespace, second.Name = "", "other"
	parsed, err := Parse(vr, []Part{{text: string(text)}})
	require.NoError(t, err)
	for want, of := range map[object.Identity]string{id: "as before", first: "its kind may have no namespace"} {
		is, err := parsed.Locate(want)
		require.NoError(t, err)
		require.NotNil(t, is, of)
	}
	absent, err := parsed.Locate(second)
	require.NoError(t, err)
	require.Nil(t, absent)
	require.ElementsMatch(t, []object.Identity{id, first}, slices.Collect(parsed.Identities()))

	vr.Spec.Drift.Ignore[0].Paths = []string{"spec"}
	_, err = Locate(vr, []Part{{text: string(text)}}, id)
	require.ErrorContains(t, err, "spec.drift.ignore[0].paths")
}
