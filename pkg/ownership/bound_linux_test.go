package ownership

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

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

// TestWorkOfListsIsLinear has long lists whose items are selected by each form of key, as an author of a CustomResourceDefinition or of managedFields
// may have them. The work grows with the length of the list and not with its square.
func TestWorkOfListsIsLinear(t *testing.T) {
	const n = 1_000
	kinds := map[string]struct {
		item func(i int) (live, configured any)
		key  func(i int) string
	}{
		"Named":    {func(i int) (any, any) { m := map[string]any{"name": fmt.Sprint(i), "v": "x"}; return m, m }, func(i int) string { return fmt.Sprintf(`k:{"name":"%d"}`, i) }},
		"Set":      {func(i int) (any, any) { return fmt.Sprint(i), fmt.Sprint(i) }, func(i int) string { return fmt.Sprintf(`v:"%d"`, i) }},
		"SetOfMap": {func(i int) (any, any) { m := map[string]any{"a": fmt.Sprint(i)}; return m, m }, func(i int) string { return fmt.Sprintf(`v:{"a":"%d"}`, i) }},
		"DefaultedKeys": {func(i int) (any, any) {
			return map[string]any{"port": int64(i), "protocol": "TCP"}, map[string]any{"port": int64(i)}
		}, func(i int) string { return fmt.Sprintf(`k:{"port":%d,"protocol":"TCP"}`, i) }},
		"FiveKeys": {func(i int) (any, any) {
			m := map[string]any{"a": "1", "b": "2", "c": "3", "d": "4", "e": fmt.Sprint(i)}
			return m, m
		}, func(i int) string { return fmt.Sprintf(`k:{"a":"1","b":"2","c":"3","d":"4","e":"%d"}`, i) }},
		"TwoNames": {func(i int) (any, any) {
			m := map[string]any{"a": fmt.Sprint(i), "b": fmt.Sprint(i)}
			return m, m
		}, func(i int) string { return fmt.Sprintf(`k:{"%c":"%d"}`, 'a'+i%2, i) }},
		"ManyNames": {func(i int) (any, any) { m := map[string]any{fmt.Sprint("a", i): "x"}; return m, m }, func(i int) string { return fmt.Sprintf(`k:{"a%d":"x"}`, i) }},
		"ListAsKey": {func(i int) (any, any) { m := map[string]any{"a": []any{fmt.Sprint(i)}}; return m, m }, func(i int) string { return fmt.Sprintf(`k:{"a":["%d"]}`, i) }},
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			var live, configured []any
			items := map[string]any{}
			for i := range n {
				item, conf := kind.item(i)
				live, configured = append(live, item), append(configured, conf)
				below := map[string]any{}
				if m, isMap := item.(map[string]any); isMap && kind.key(i)[0] == 'k' {
					for name := range m {
						below["f:"+name] = map[string]any{}
					}
				}
				items[kind.key(i)] = below
			}
			content := func(spec string, ours, theirs map[string]any) *unstructured.Unstructured {
				u := owning(t, "example.com/v1", "Widget", `{"spec":`+spec+`}`)
				u.Object["list"] = live
				entries, _, _ := unstructured.NestedSlice(u.Object, "metadata", "managedFields")
				entries[0].(map[string]any)["fieldsV1"], entries[1].(map[string]any)["fieldsV1"] = ours, theirs
				require.NoError(t, unstructured.SetNestedSlice(u.Object, entries, "metadata", "managedFields"))
				text, err := u.MarshalJSON()
				require.NoError(t, err)
				u = &unstructured.Unstructured{}
				require.NoError(t, u.UnmarshalJSON(text))
				return u
			}
			spec := func(name string) map[string]any { return map[string]any{"f:" + name: map[string]any{}} }
			restored := content(`{"gone":"x"}`, map[string]any{"f:list": items, "f:spec": spec("gone")}, map[string]any{"f:list": items})
			found := content(`{"added":"x"}`, map[string]any{"f:list": items}, map[string]any{"f:spec": spec("added")})
			taken := content(`{"added":"x"}`, map[string]any{"f:spec": map[string]any{}}, map[string]any{"f:list": items, "f:spec": spec("added")})
			configuration := map[string]any{"list": configured, "spec": map[string]any{"gone": "x"}}
			undo := Undo{Known: shown, Manager: manager, Prefix: "vidra/", BeforeKnown: true, Configuration: configuration, Scope: BesideChanged}
			text, err := restored.MarshalJSON()
			require.NoError(t, err)
			decode := fixture.ProcessorTime(t, func() { require.NoError(t, (&unstructured.Unstructured{}).UnmarshalJSON(text)) })
			for name, tc := range map[string]struct {
				reason string
				most   time.Duration // in multiples of decode
				do     func()
			}{
				"Event": {"It is made for each event.", 20, func() { Of(restored, manager) }},
				"Heal": {"It is made for each heal, also a structural one, and for an edit that took the list.", 200, func() {
					Drift(taken, restored, manager, shown)
					undo.Added(found, found)
					undo.Added(taken, taken)
				}},
				"Others": {"It is made for a dry run, a change of shards, rules, vidra blame and an export.", 150, func() {
					Merge(found, configuration, func(m, _ string) bool { return m == manager })
					Extract(restored, manager)
					setBy(restored, []string{"kube-controller-manager"}, configuration, restored)
					ReleaseFields(restored, manager, configuration, map[string]any{"list": configured[1:]})
					FieldsOf(restored, manager, configuration, shown)
					WritersOf(restored)
				}},
			} {
				took := fixture.ProcessorTime(t, tc.do)
				t.Logf("%s: %s to decode %d bytes, %s for this", name, decode, len(text), took)
				require.Less(t, took, tc.most*decode, "%s: %s", name, tc.reason)
			}
		})
	}
}

// belowNames returns an object of n fields below names. Another manager has changed each field, and added one beside it. configuration is ours, and restored
// has its fields.
func belowNames(tb testing.TB, names []string, n int) (found, restored *unstructured.Unstructured, configuration map[string]any) {
	tb.Helper()
	edited, wanted, ours, theirs := map[string]any{}, map[string]any{}, map[string]any{}, map[string]any{}
	for i := range n {
		key, added := fmt.Sprintf("key-%04d", i), fmt.Sprintf("theirs-%04d", i)
		wanted[key], edited[key], edited[added] = "value", "theirs", "theirs"
		ours["f:"+key], theirs["f:"+key], theirs["f:"+added] = map[string]any{}, map[string]any{}, map[string]any{}
	}
	for _, name := range slices.Backward(names) {
		edited, wanted = map[string]any{name: edited}, map[string]any{name: wanted}
		ours, theirs = map[string]any{"f:" + name: ours}, map[string]any{"f:" + name: theirs}
	}
	object := func(content, ours map[string]any, more ...any) *unstructured.Unstructured {
		u := owning(tb, "example.com/v1", "Widget", `{"spec":{}}`)
		u.Object["spec"] = content
		entries, _, err := unstructured.NestedSlice(u.Object, "metadata", "managedFields")
		require.NoError(tb, err)
		entries[0].(map[string]any)["fieldsV1"] = ours
		require.NoError(tb, unstructured.SetNestedSlice(u.Object, append(entries[:1], more...), "metadata", "managedFields"))
		return u
	}
	edit := map[string]any{
		"manager": "kubectl", "operation": "Update", "apiVersion": "example.com/v1", "fieldsType": "FieldsV1", "time": "2026-01-02T03:04:06Z",
		"fieldsV1": map[string]any{"f:spec": theirs},
	}
	found = object(edited, map[string]any{"f:spec": map[string]any{"f:other": map[string]any{}}}, edit)
	return found, object(wanted, map[string]any{"f:spec": ours}), map[string]any{"spec": wanted}
}

// TestMemoryOfLongPaths has many fields below a long name, or at a great depth, as in objects of kinds that preserve unknown
// fields. The memory does not grow with the product of the two.
func TestMemoryOfLongPaths(t *testing.T) {
	const n, most = 5_000, 128 << 20
	for name, names := range map[string][]string{
		"LongName": {strings.Repeat("k", 200_000)},
		"Deep":     slices.Repeat([]string{"a"}, 2_000),
	} {
		t.Run(name, func(t *testing.T) {
			found, restored, configuration := belowNames(t, names, n)
			undo := Undo{Known: shown, Manager: manager, Prefix: "vidra/", BeforeKnown: true, Configuration: configuration}
			added := func(scope Scope) func() Addition {
				return func() Addition { undo.Scope = scope; return undo.Added(found, found) }
			}
			for name, do := range map[string]func() Addition{
				"Drift":         func() Addition { return Addition{Changes: Drift(found, restored, manager, shown)} },
				"BesideChanged": added(BesideChanged),
				"SinceApply":    added(SinceApply),
			} {
				var result Addition
				allocated := allocatedBy(func() { result = do() })
				t.Logf("%s: %d MB", name, allocated>>20)
				require.Less(t, allocated, uint64(most), name)
				require.Len(t, result.Changes, n)
				if name != "Drift" && len(names) == 1 { // the patch of a deep object takes seconds
					taken := setOf(applied(patched(t, found, result.Patch), manager))
					require.Equal(t, n+1, taken.Size(), "each addition is removed, whatever the length of its path")
				}
				last := result.Changes[n-1]
				require.Regexp(t, `-4999$`, last.Path, "the end of a path is shown")
				require.LessOrEqual(t, len(last.Path), 2*maxPath)
				require.Empty(t, last.Pointer)
				require.Equal(t, `"theirs"`, last.Value)
				require.Equal(t, "kubectl", last.Manager)
				paths := sets.Set[string]{}
				for _, change := range result.Changes {
					paths.Insert(change.Path)
				}
				require.Len(t, paths, n, "each path has its own text")
			}
			require.Less(t, allocatedBy(func() { WritersOf(found) }), uint64(most), "WritersOf")
		})
	}
}

// allocatedBy returns how many bytes a function allocates.
func allocatedBy(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestWorkOfAmbiguityIsLinear has two managers that added a field at each level of a deep object while nothing watched. None of it counts, and the levels
// are not excluded one after the other.
func TestWorkOfAmbiguityIsLinear(t *testing.T) {
	const depth = 500
	live, configuration := map[string]any{}, map[string]any{}
	trees := []map[string]any{{"f:z": map[string]any{}}, {"f:n1": map[string]any{}}, {"f:n2": map[string]any{}}}
	for range depth {
		live = map[string]any{"s": live, "n1": "x", "n2": "x"}
		configuration = map[string]any{"s": configuration, "gone": "x"}
		for i := range trees {
			trees[i] = map[string]any{"f:s": trees[i], fmt.Sprintf("f:n%d", i): map[string]any{}}
		}
	}
	found := owning(t, "example.com/v1", "Widget", `{"spec":{}}`)
	found.Object["spec"] = live
	entries, _, err := unstructured.NestedSlice(found.Object, "metadata", "managedFields")
	require.NoError(t, err)
	entries[0].(map[string]any)["fieldsV1"] = map[string]any{"f:spec": trees[0]}
	for _, i := range []int{1, 2} {
		entries = append(entries, map[string]any{
			"manager": fmt.Sprintf("m%d", i), "operation": "Update", "apiVersion": "example.com/v1", "fieldsType": "FieldsV1", "time": "2026-01-02T03:04:06Z",
			"fieldsV1": map[string]any{"f:spec": trees[i]},
		})
	}
	require.NoError(t, unstructured.SetNestedSlice(found.Object, entries, "metadata", "managedFields"))
	undo := Undo{Known: shown, Manager: manager, Prefix: "vidra/", BeforeKnown: true, Configuration: map[string]any{"spec": configuration}, Scope: BesideChanged}
	added := func() Addition { return undo.Added(found, found) }
	observed := fixture.ProcessorTime(t, func() { require.NotEmpty(t, added().Changes) })
	undo.Unobserved = true
	took := fixture.ProcessorTime(t, func() { require.Empty(t, added().Changes) })
	t.Logf("%s if it was observed, %s if not", observed, took)
	require.Less(t, took, 10*observed)
}

// TestWorkOfConflictsIsLinear has as many conflicts as fields.
func TestWorkOfConflictsIsLinear(t *testing.T) {
	for name, tc := range map[string]struct {
		above  string
		fields int
	}{"LongName": {strings.Repeat("k", 1_000), 2_000}, "ManyFields": {"k", 40_000}} {
		t.Run(name, func(t *testing.T) {
			_, live, _ := belowNames(t, []string{tc.above}, tc.fields)
			text, err := live.MarshalJSON()
			require.NoError(t, err)
			decode := fixture.ProcessorTime(t, func() { require.NoError(t, (&unstructured.Unstructured{}).UnmarshalJSON(text)) })
			took := fixture.ProcessorTime(t, func() {
				same := SameValues(live, manager, live, live)
				for i := range tc.fields {
					require.True(t, same(fmt.Sprintf(".spec.%s.key-%04d", tc.above, i)))
				}
			})
			t.Logf("%s to decode %d bytes, %s for this", decode, len(text), took)
			require.Less(t, took, 20*decode)
		})
	}
}

// TestWorkOfLongPathsIsLinear has thousands of maps that are owned as a whole below a long name, or at a great depth, with fields of users' tools beside
// them: the digest of each event walks to them once.
func TestWorkOfLongPathsIsLinear(t *testing.T) {
	const n, tools = 5_000, 12
	for name, names := range map[string][]string{
		"LongName": {strings.Repeat("k", 200_000)},
		"Deep":     slices.Repeat([]string{"a"}, 2_000),
	} {
		t.Run(name, func(t *testing.T) {
			live, ours, theirs := map[string]any{}, map[string]any{}, map[string]any{}
			for i := range n {
				key, added := fmt.Sprintf("key-%04d", i), fmt.Sprintf("theirs-%04d", i)
				live[key], live[added] = map[string]any{"a": "x"}, "x"
				ours["f:"+key], theirs["f:"+added] = map[string]any{}, map[string]any{}
			}
			spec := map[string]any{"f:" + names[0]: map[string]any{}}
			for _, name := range slices.Backward(names) {
				live, ours, theirs = map[string]any{name: live}, map[string]any{"f:" + name: ours}, map[string]any{"f:" + name: theirs}
			}
			u := owning(t, "example.com/v1", "Widget", `{"spec":{}}`)
			u.Object["spec"] = live
			entries, _, err := unstructured.NestedSlice(u.Object, "metadata", "managedFields")
			require.NoError(t, err)
			entries[0].(map[string]any)["fieldsV1"] = map[string]any{"f:spec": ours}
			entries = entries[:1]
			for i := range tools {
				set := spec
				if i == 0 {
					set = theirs
				}
				entries = append(entries, map[string]any{
					"manager": fmt.Sprintf("kubectl-%d", i), "operation": "Update", "apiVersion": "example.com/v1", "fieldsType": "FieldsV1", "time": "2026-01-02T03:04:06Z",
					"fieldsV1": map[string]any{"f:spec": set},
				})
			}
			require.NoError(t, unstructured.SetNestedSlice(u.Object, entries, "metadata", "managedFields"))
			text, err := u.MarshalJSON()
			require.NoError(t, err)
			decode := fixture.ProcessorTime(t, func() { require.NoError(t, (&unstructured.Unstructured{}).UnmarshalJSON(text)) })
			for name, do := range map[string]func(){
				"Of":     func() { Of(u, manager) },
				"Tools":  func() { DefaultTools.Digest(u, manager) },
				"Others": func() { Others(u, "vidra/") },
			} {
				took := fixture.ProcessorTime(t, do)
				t.Logf("%s to decode %d bytes, %s for %s", decode, len(text), took, name)
				require.Less(t, took, 10*decode, name)
			}
		})
	}
}

// TestDigestOfLongPaths has the digest of the additions of tools differ for each long path.
func TestDigestOfLongPaths(t *testing.T) {
	long := strings.Repeat("k", 2*maxPath)
	digests := map[Digest]string{}
	for _, path := range [][]string{{long + "1", "a"}, {long + "2", "a"}, {"x", long, "a"}, {"y", long, "a"}, {long, "x", "y", "z", "a"}, {long, "x", "w", "z", "a"}} {
		var live, fields any = "x", map[string]any{}
		for _, name := range slices.Backward(path) {
			live, fields = map[string]any{name: live}, map[string]any{"f:" + name: fields}
		}
		u := &unstructured.Unstructured{Object: map[string]any{"spec": live, "metadata": map[string]any{"managedFields": []any{map[string]any{
			"manager": "kubectl-edit", "operation": "Update", "apiVersion": "example.com/v1", "fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:spec": fields},
		}}}}}
		digest, found := DefaultTools.Digest(u, manager)
		require.True(t, found)
		require.NotContains(t, digests, digest)
		digests[digest] = strings.Join(path, "/")
	}
}

// TestWorkOfRefusedFields has the API server refuse as many fields as an object of 1.5 MB has, below as many parents, at the deepest level.
func TestWorkOfRefusedFields(t *testing.T) {
	const fields, levels = 20_000, 200
	above := slices.Repeat([]string{"a"}, levels)
	all := &parents{below: map[string]*parents{}}
	var refused [][]string
	for i := range fields {
		name := fmt.Sprintf("field-%d", i)
		all.below["f:"+name] = &parents{here: true}
		refused = append(refused, append(slices.Clone(above), fmt.Sprintf("field-%d", fields-i), "image"))
	}
	for range levels {
		all = &parents{below: map[string]*parents{"f:a": all}}
	}
	var part *parents
	took := fixture.ProcessorTime(t, func() { part = all.within(parentsOf(refused)) })
	t.Log(took)
	for range levels {
		part = part.child("f:a")
	}
	require.Len(t, part.below, fields-1)
	require.Less(t, took, 10*time.Second) // it takes 0.2 s; the comparison of each with each takes 144 s
}
