package ownership

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/internal/fixture"
)

// forged returns an object of fields fields and empty maps that the manager applied, with
// entries of n more managers, which own something in each of the empty maps.
func forged(tb testing.TB, fields, n int) *unstructured.Unstructured {
	tb.Helper()
	u := owning(tb, "v1", "ConfigMap", fmt.Sprintf(`{"data":{%s},"maps":{%s}}`, repeat(fields, `"key-%04d":"value"`), repeat(fields, `"map-%04d":{}`)))
	entries, _, err := unstructured.NestedSlice(u.Object, "metadata", "managedFields")
	require.NoError(tb, err)
	for i := range fields {
		require.NoError(tb, unstructured.SetNestedField(u.Object, "theirs", "maps", fmt.Sprintf("map-%04d", i), "theirs"))
	}
	for i := range n {
		entries = append(entries, map[string]any{
			"manager": fmt.Sprintf("vidra/forged-%d", i), "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "time": "2026-01-02T03:04:06Z",
			"fieldsV1": map[string]any{"f:maps": map[string]any{fmt.Sprintf("f:map-%04d", i%fields): map[string]any{"f:theirs": map[string]any{}}}},
		})
	}
	require.NoError(tb, unstructured.SetNestedSlice(u.Object, entries, "metadata", "managedFields"))
	return u
}

// TestWorkIsLinear has an object with as many fields and as many forged entries as the API
// server takes. The work grows with their sum and not with their product: it is a small
// multiple of what it takes to decode the object.
func TestWorkIsLinear(t *testing.T) {
	const n = 4_000
	restored := forged(t, n, n)
	found := restored.DeepCopy()
	for i := range n {
		require.NoError(t, unstructured.SetNestedField(found.Object, "mine", "data", fmt.Sprintf("key-%04d", i)))
	}
	text, err := found.MarshalJSON()
	require.NoError(t, err)
	decode := fixture.ProcessorTime(t, func() { require.NoError(t, (&unstructured.Unstructured{}).UnmarshalJSON(text)) })
	cases := map[string]struct {
		reason string
		most   time.Duration // in percent of decode
		do     func()
	}{
		"Of":       {"It is made for each event.", 200, func() { Of(found, manager) }},
		"Managers": {"They are listed for each event.", 50, func() { Managers(found, "vidra/") }},
		"Extract":  {"It is made when the shard changes.", 200, func() { Extract(found, manager) }},
		"Drift":    {"It is made for each heal.", 800, func() { Drift(found, restored, manager, shown) }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			took := fixture.ProcessorTime(t, tc.do)
			t.Logf("%s to decode %d bytes, %s for this", decode, len(text), took)
			require.Less(t, took, tc.most*decode/100, tc.reason)
		})
	}
}

// TestLatest names the author of a change among forged entries, as long as it is one of
// those that wrote last.
func TestLatest(t *testing.T) {
	t.Parallel()
	restored := forged(t, 10, 5*maxAuthors)
	found := restored.DeepCopy()
	require.NoError(t, unstructured.SetNestedField(found.Object, "mine", "data", "key-0003"))
	list, _, err := unstructured.NestedSlice(found.Object, "metadata", "managedFields")
	require.NoError(t, err)
	list = append(list, map[string]any{
		"manager": "kubectl-edit", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "time": "2026-01-02T03:04:07Z",
		"fieldsV1": map[string]any{"f:data": map[string]any{"f:key-0003": map[string]any{}}},
	})
	require.NoError(t, unstructured.SetNestedSlice(found.Object, list, "metadata", "managedFields"))
	changes := Drift(found, restored, manager, shown)
	require.Len(t, changes, 1)
	require.Equal(t, "kubectl-edit", changes[0].Manager)
}

// TestMergedTrees has what each of the trees has.
func TestMergedTrees(t *testing.T) {
	t.Parallel()
	one := fieldsV1{"f:a": map[string]any{".": map[string]any{}, "f:x": map[string]any{}}}
	two := fieldsV1{"f:a": map[string]any{"f:y": map[string]any{}}, "f:b": map[string]any{}}
	all := merged([]fieldsV1{one, two})
	require.Equal(t, fieldsV1{
		"f:a": map[string]any{".": map[string]any{}, "f:x": map[string]any{}, "f:y": map[string]any{}}, "f:b": map[string]any{},
	}, all)
	require.Len(t, one["f:a"], 2, "the trees stay as they are")
}

// TestWorkOfAnUndoIsLinear has an object in which each of as many forged entries as the API server takes has changed a field and added
// another one. Each is a change with an author, and a part of the patch.
func TestWorkOfAnUndoIsLinear(t *testing.T) {
	const n = 2_000
	content := fmt.Sprintf(`{"data":{%s}}`, repeat(n, `"key-%04d":"value"`))
	found := owning(t, "v1", "ConfigMap", content)
	configuration := map[string]any{"data": owning(t, "v1", "ConfigMap", content).Object["data"]}
	entries, _, err := unstructured.NestedSlice(found.Object, "metadata", "managedFields")
	require.NoError(t, err)
	data := found.Object["data"].(map[string]any)
	ours := entries[0].(map[string]any)["fieldsV1"].(map[string]any)["f:data"].(map[string]any)
	for i := range n {
		key, added := fmt.Sprintf("key-%04d", i), fmt.Sprintf("theirs-%04d", i)
		data[key], data[added] = "theirs", "theirs"
		delete(ours, "f:"+key)
		entries = append(entries, map[string]any{
			"manager": fmt.Sprintf("forged-%d", i), "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "time": "2026-01-02T03:04:06Z",
			"fieldsV1": map[string]any{"f:data": map[string]any{"f:" + key: map[string]any{}, "f:" + added: map[string]any{}}},
		})
	}
	ours["f:other"] = map[string]any{}
	require.NoError(t, unstructured.SetNestedSlice(found.Object, entries, "metadata", "managedFields"))
	text, err := found.MarshalJSON()
	require.NoError(t, err)
	decode := fixture.ProcessorTime(t, func() { require.NoError(t, (&unstructured.Unstructured{}).UnmarshalJSON(text)) })
	undo := Undo{Known: shown, Manager: manager, Prefix: "vidra/", BeforeKnown: true, Configuration: configuration}
	added := func(scope Scope) func() {
		return func() {
			undo.Scope = scope
			require.Len(t, undo.Added(found, found).Changes, n)
		}
	}
	cases := map[string]struct {
		reason string
		do     func()
	}{
		"BesideChanged": {"It is made for a structural heal.", added(BesideChanged)},
		"SinceApply":    {"It is made once that was insufficient.", added(SinceApply)},
		"Merge": {"It is made for a dry run.", func() {
			Merge(found, configuration, func(string, string) bool { return true })
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			took := fixture.ProcessorTime(t, tc.do)
			t.Logf("%s to decode %d bytes, %s for this", decode, len(text), took)
			require.Less(t, took, 15*decode, tc.reason)
		})
	}
}
