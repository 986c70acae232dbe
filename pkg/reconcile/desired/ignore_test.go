package desired

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

const webDeployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop","labels":{"app":"web"},"annotations":{"a/b":"c"}},
"spec":{"replicas":1,"template":{"spec":{"containers":[{"name":"web","image":"web:1"},{"name":"proxy","image":"proxy:1"},{"name":"log","image":"log:1"}]}}}}`

func TestMatchedIn(t *testing.T) {
	t.Parallel()
	replicas := []string{"/spec/replicas"}
	cases := map[string]struct {
		rule v1alpha1.IgnoreRule
		want Exemptions // nil if the rule matches nothing in the manifest
	}{
		"All":            {v1alpha1.IgnoreRule{Paths: replicas}, Exemptions{{paths: [][]string{{"spec", "replicas"}}}}},
		"Target":         {v1alpha1.IgnoreRule{Target: v1alpha1.IgnoreTarget{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}, Paths: replicas}, Exemptions{{paths: [][]string{{"spec", "replicas"}}}}},
		"OtherGroup":     {v1alpha1.IgnoreRule{Target: v1alpha1.IgnoreTarget{Group: "batch"}, Paths: replicas}, nil},
		"OtherKind":      {v1alpha1.IgnoreRule{Target: v1alpha1.IgnoreTarget{Kind: "Job"}, Paths: replicas}, nil},
		"OtherName":      {v1alpha1.IgnoreRule{Target: v1alpha1.IgnoreTarget{Name: "api"}, Paths: replicas}, nil},
		"OtherNamespace": {v1alpha1.IgnoreRule{Target: v1alpha1.IgnoreTarget{Namespace: "bank"}, Paths: replicas}, nil},
		"Labels": {v1alpha1.IgnoreRule{
			Target: v1alpha1.IgnoreTarget{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}, Paths: replicas,
		}, Exemptions{{paths: [][]string{{"spec", "replicas"}}}}},
		"OtherLabels": {v1alpha1.IgnoreRule{
			Target: v1alpha1.IgnoreTarget{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "api"}}}, Paths: replicas,
		}, nil},
		"Escaped":  {v1alpha1.IgnoreRule{Paths: []string{"/metadata/annotations/a~1b"}}, Exemptions{{paths: [][]string{{"metadata", "annotations", "a/b"}}}}},
		"InAList":  {v1alpha1.IgnoreRule{Paths: []string{"/spec/template/spec/containers/1/image"}}, Exemptions{{paths: [][]string{{"spec", "template", "spec", "containers", "1", "image"}}}}},
		"Key":      {v1alpha1.IgnoreRule{Paths: []string{"/spec/template/spec/containers/[name=proxy]/image"}}, Exemptions{{paths: [][]string{{"spec", "template", "spec", "containers", "1", "image"}}, copied: 6}}},
		"NoItem":   {v1alpha1.IgnoreRule{Paths: []string{"/spec/template/spec/containers/[name=other]/image"}}, nil},
		"Core":     {v1alpha1.IgnoreRule{Target: v1alpha1.IgnoreTarget{Group: "core"}, Paths: replicas}, nil},
		"NoIndex":  {v1alpha1.IgnoreRule{Paths: []string{"/spec/template/spec/containers/x", "/spec/template/spec/containers/3"}}, nil},
		"NoField":  {v1alpha1.IgnoreRule{Paths: []string{"/spec/paused", "/spec/replicas/x", "/nothing/at/all"}}, nil},
		"Managers": {v1alpha1.IgnoreRule{Managers: []string{"hpa"}}, Exemptions{{managers: []string{"hpa"}}}},
		"Both":     {v1alpha1.IgnoreRule{Paths: replicas, Managers: []string{"hpa"}}, Exemptions{{paths: [][]string{{"spec", "replicas"}}, managers: []string{"hpa"}}}},
		"BothNone": {v1alpha1.IgnoreRule{Paths: []string{"/spec/paused"}, Managers: []string{"hpa"}}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rules, err := rulesOf(&v1alpha1.VidraResource{Spec: v1alpha1.VidraResourceSpec{Drift: &v1alpha1.DriftPolicy{Ignore: []v1alpha1.IgnoreRule{tc.rule}}}})
			require.NoError(t, err)
			obj := fixture.UnstructuredOf(t, webDeployment)
			got, given := matchedIn(rules.of(obj), obj, rules.steps)
			if tc.want != nil {
				require.Equal(t, tc.want, got)
			}
			require.Equal(t, tc.want != nil, len(given) == 1)
			require.Equal(t, tc.want == nil, len(rules.unmatched()) == 1, "what matches nothing is said")
		})
	}
}

func TestRulesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	selector := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}}
	_, err := rulesOf(&v1alpha1.VidraResource{Spec: v1alpha1.VidraResourceSpec{Drift: &v1alpha1.DriftPolicy{
		Ignore: []v1alpha1.IgnoreRule{{Paths: []string{"/a"}}, {Target: v1alpha1.IgnoreTarget{LabelSelector: selector}}},
	}}})
	require.ErrorContains(t, err, "spec.drift.ignore[1].target.labelSelector")
}

// TestWithout removes what is left to others from what is applied.
func TestWithout(t *testing.T) {
	t.Parallel()
	live := fixture.UnstructuredOf(t, webDeployment)
	live.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: "hpa", Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(
			`{"f:spec":{"f:replicas":{},"f:paused":{},"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"proxy\"}":{".":{},"f:name":{},"f:image":{}}}}}}}`),
	}})
	containers := []string{"spec", "template", "spec", "containers"}
	cases := map[string]struct {
		reason string
		ign    Exemptions
		want   string
	}{
		"Paths": {
			"Several items of a list are the ones that were meant.",
			Exemptions{{paths: [][]string{append(containers[:4:4], "0"), append(containers[:4:4], "1"), {"spec", "replicas"}}}},
			`{"template":{"spec":{"containers":[{"name":"log","image":"log:1"}]}}}`,
		},
		"Managers": {
			"The key of an item that others set, too, stays.",
			Exemptions{{managers: []string{"hpa"}}},
			`{"template":{"spec":{"containers":[{"name":"web","image":"web:1"},{"name":"proxy"},{"name":"log","image":"log:1"}]}}}`,
		},
		"Both": {
			"A manager has only the paths of the rule.",
			Exemptions{{paths: [][]string{{"spec", "replicas"}}, managers: []string{"hpa"}}},
			`{"template":{"spec":{"containers":[{"name":"web","image":"web:1"},{"name":"proxy","image":"proxy:1"},{"name":"log","image":"log:1"}]}}}`,
		},
		"OtherManager": {
			"Others have nothing.",
			Exemptions{{managers: []string{"kubectl"}}},
			`{"replicas":1,"template":{"spec":{"containers":[{"name":"web","image":"web:1"},{"name":"proxy","image":"proxy:1"},{"name":"log","image":"log:1"}]}}}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			full, reduced, err := tc.ign.Without([]byte(webDeployment), live, live, object.SignatureOf("", "web"))
			require.NoError(t, err)
			spec, err := json.Marshal(reduced["spec"])
			require.NoError(t, err)
			require.JSONEq(t, tc.want, string(spec), tc.reason)
			whole, err := json.Marshal(full)
			require.NoError(t, err)
			require.JSONEq(t, webDeployment, string(whole))
		})
	}
}

// TestWithoutAbsentPaths: a path that the manifest lacks excludes nothing above it, also where the field above it is owned as a whole.
func TestWithoutAbsentPaths(t *testing.T) {
	t.Parallel()
	live, by := fixture.UnstructuredOf(t, webDeployment), object.SignatureOf("", "web")
	live.SetManagedFields([]metav1.ManagedFieldsEntry{
		{Manager: by.Manager, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{},"f:template":{}}}`)},
		{Manager: "hpa", Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{},"f:template":{}}}`)},
	})
	for _, managers := range [][]string{nil, {"hpa"}} {
		for path, excluded := range map[string]bool{"spec": true, "absent": false} {
			_, reduced, err := Exemptions{{paths: [][]string{{"spec", "template", path}}, managers: managers}}.Without([]byte(webDeployment), live, live, by)
			require.NoError(t, err)
			_, found, _ := unstructured.NestedMap(reduced, "spec", "template")
			require.Equal(t, excluded, !found, "%s of %s", path, managers)
		}
	}
}

// TestWrappedErrorsKeepSecrets: what the API server says of a Secret is withheld, also
// where something was said before it.
func TestWrappedErrorsKeepSecrets(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("release ignored fields: %w", apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "login",
		field.ErrorList{field.Invalid(field.NewPath("data", "password"), "hunter2", "no")}))
	require.NotContains(t, object.Message(err, ownership.Disclosure{}), "hunter2")
	require.True(t, object.IsAbsent(fmt.Errorf("wrapped: %w", apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "login")), "login"))
}

// TestWithoutKeepsIntegers: a rule changes nothing of what it does not cover.
func TestWithoutKeepsIntegers(t *testing.T) {
	t.Parallel()
	const body = `{"kind":"Widget","spec":{"id":9007199254740993,"replicas":1}}`
	ign := Exemptions{{paths: [][]string{{"spec", "replicas"}}}}
	_, reduced, err := ign.Without([]byte(body), fixture.UnstructuredOf(t, webDeployment), fixture.UnstructuredOf(t, webDeployment), object.SignatureOf("", "web"))
	require.NoError(t, err)
	require.Equal(t, map[string]any{"id": int64(9007199254740993)}, reduced["spec"])
}

// TestPathsOfIgnoreRules: a wrong path beside a right one is named, and so is a key that selects no list item.
func TestPathsOfIgnoreRules(t *testing.T) {
	t.Parallel()
	of := func(paths ...string) (rules, error) {
		return rulesOf(&v1alpha1.VidraResource{Spec: v1alpha1.VidraResourceSpec{Drift: &v1alpha1.DriftPolicy{Ignore: []v1alpha1.IgnoreRule{{Paths: paths}}}}})
	}
	rules, err := of("/spec/replicas", "/spec/replica")
	require.NoError(t, err)
	obj := fixture.UnstructuredOf(t, webDeployment)
	matchedIn(rules.of(obj), obj, rules.steps)
	require.Equal(t, []string{"spec.drift.ignore[0].paths[1] /spec/replica"}, rules.unmatched())
	for _, wrong := range []string{"/spec/[name]", "/spec/[name=web", "/spec/[=web]"} {
		_, err := of("/spec/replicas", wrong)
		require.ErrorContains(t, err, "spec.drift.ignore[0].paths[1]")
		require.ErrorContains(t, err, "write [key=value]")
	}
}

// TestIgnoreRulesAreBounded: rules whose paths select all items of a long list many times, or search it in vain, are refused before they take much.
func TestIgnoreRulesAreBounded(t *testing.T) {
	t.Parallel()
	items := make([]any, 20_000)
	for i := range items {
		items[i] = map[string]any{"a": "b"}
	}
	cases := map[string]struct {
		path         string
		rules, paths int
		fits         bool
	}{
		"Once":    {path: "/spec/items/[a=c]", rules: 1, paths: 1, fits: true},
		"Honest":  {path: "/spec/items/1/a", rules: 20, paths: 64, fits: true},
		"All":     {path: "/spec/items/[a=b]", rules: 1, paths: 1},
		"Many":    {path: "/spec/items/[a=b]", rules: 64, paths: 64},
		"InVain":  {path: "/spec/items/[a=c]", rules: 64, paths: 64},
		"Missing": {path: "/spec/items/[a=b]/x" + strings.Repeat("/x", 400), rules: 64, paths: 64},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := v1alpha1.IgnoreRule{Paths: slices.Repeat([]string{tc.path}, tc.paths)}
			rules, err := rulesOf(&v1alpha1.VidraResource{Spec: v1alpha1.VidraResourceSpec{Drift: &v1alpha1.DriftPolicy{Ignore: slices.Repeat([]v1alpha1.IgnoreRule{spec}, tc.rules)}}})
			require.NoError(t, err)
			obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"items": items}}}
			d := Object{Body: []byte("{}")}
			err = d.setIgnoreRules(rules.of(obj), obj, rules.steps)
			if tc.fits {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "spec.drift.ignore select too many of its fields")
			selected := 0
			for _, m := range d.Rules.Exemptions {
				selected += len(m.paths)
			}
			require.Less(t, selected, maxIgnoreSteps)
		})
	}
}

// TestWithoutManyFields: two thousand ignored fields in a long list take a small multiple of the time for one.
func TestWithoutManyFields(t *testing.T) {
	t.Parallel()
	var items []any
	owned := map[string]any{}
	var paths [][]string
	for i := range 2 * maxIgnored {
		items = append(items, map[string]any{"name": fmt.Sprint("item", i), "a": "b"})
		owned[fmt.Sprintf(`k:{"name":"item%d"}`, i)] = map[string]any{".": map[string]any{}, "f:name": map[string]any{}, "f:a": map[string]any{}}
		paths = append(paths, []string{"spec", "items", strconv.Itoa(i), "a"})
	}
	spec, by := map[string]any{"items": items}, object.SignatureOf("", "web")
	fields := map[string]any{"f:spec": map[string]any{"f:items": owned}}
	live := &unstructured.Unstructured{Object: map[string]any{"spec": spec, "metadata": map[string]any{"managedFields": []any{
		map[string]any{"manager": by.Manager, "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields},
		map[string]any{"manager": "tuner", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields},
	}}}}
	body, err := json.Marshal(map[string]any{"spec": spec})
	require.NoError(t, err)
	for name, of := range map[string]func(paths [][]string) Exemptions{
		"All": func(paths [][]string) Exemptions { return Exemptions{{paths: paths}} },
		"Managers": func(paths [][]string) Exemptions {
			return Exemptions{{paths: paths, managers: []string{"tuner"}}}
		},
	} {
		took := func(n int) time.Duration {
			ign, begun := of(paths[:n]), time.Now()
			_, reduced, err := ign.Without(body, live, live, by)
			require.NoError(t, err)
			left, _, _ := unstructured.NestedSlice(reduced, "spec", "items")
			require.Equal(t, map[string]any{"name": fmt.Sprint("item", n-1)}, left[n-1])
			require.Equal(t, "b", left[n].(map[string]any)["a"]) //nolint:forcetypeassert // as it was made
			return time.Since(begun)
		}
		one := took(1)
		require.Less(t, took(maxIgnored), 50*one, name)
	}
}
