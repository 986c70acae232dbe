package insight

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/dryrun"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// TestForecastParsesOnce: the work for the places of contested fields grows with their number, and not with its square.
func TestForecastParsesOnce(t *testing.T) {
	work := func(objects int) float64 {
		vr, found, text := &v1alpha1.VidraResource{}, &Forecast{}, &strings.Builder{}
		for i := range objects {
			_, _ = fmt.Fprintf(text, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a%d, namespace: shop}\ndata:\n  k: v\n", i)
			found.Fields = append(found.Fields, ContestedField{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: fmt.Sprint("a", i), tokens: []string{"data", "k"}})
		}
		vr.Spec.Manifest = text.String()
		f := &forecaster{differ: &differ{runner: &dryrun.Runner{VR: vr}}}
		return testing.AllocsPerRun(1, func() {
			require.NoError(t, f.locate(t.Context(), found))
			require.Contains(t, found.Fields[objects-1].Place, fmt.Sprintf("line %d", 6*objects))
		})
	}
	require.Less(t, work(80), 6*work(20))
}

// TestRuleOfOneObject: the rule for a Service of Kubernetes leaves no field of a Service with its name in another group to others.
func TestRuleOfOneObject(t *testing.T) {
	const service = "apiVersion: %s\nkind: Service\nmetadata: {name: web, namespace: shop, labels: {tier: front}}\n"
	vr := &v1alpha1.VidraResource{}
	vr.Spec.Manifest = fmt.Sprintf(service+"---\n"+service, "v1", "serving.knative.dev/v1")
	tier := []string{"metadata", "labels", "tier"}
	for _, group := range []string{"", "serving.knative.dev"} {
		id := object.Identity{GroupKind: schema.GroupKind{Group: group, Kind: "Service"}, Namespace: "shop", Name: "web"}
		forecast := rulesFor(id, []ContestedField{{Fights: true, tokens: tier}})
		for _, other := range []string{"", "serving.knative.dev"} {
			vr.Spec.Drift = &v1alpha1.DriftPolicy{Ignore: forecast}
			of := object.Identity{GroupKind: schema.GroupKind{Group: other, Kind: "Service"}, Namespace: "shop", Name: "web"}
			found, err := desired.Locate(vr, []desired.Part{desired.InlinePart(vr)}, of)
			require.NoError(t, err)
			require.Equal(t, group == other, found.Exemptions.Exempts("kubectl-label", tier), "the rule of %q in %q", group, other)
		}
	}
}

// TestRulesOfManyFields: no rule has more paths than the API server accepts.
func TestRulesOfManyFields(t *testing.T) {
	fields := make([]ContestedField, 65)
	for i := range fields {
		fields[i] = ContestedField{Fights: true, tokens: []string{"data", fmt.Sprint("k", i)}}
	}
	rules := rulesFor(object.Identity{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "shop", Name: "page"}, fields)
	require.Len(t, rules, 2)
	require.Len(t, rules[0].Paths, 64)
	require.Equal(t, []string{"/data/k64"}, rules[1].Paths)
	require.Equal(t, rules[0].Target, rules[1].Target)
	require.Empty(t, rulesFor(object.Identity{}, nil))
}
