package desired

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// TestWithoutLongPaths has as many rules as a VidraResource may have, for the manager of thousands of fields at the deepest level of a manifest: time and memory
// grow with the fields, and not with their product with the rules, the ignored paths or the levels.
func TestWithoutLongPaths(t *testing.T) {
	const fields, rules, levels = 4000, 64, 250
	by, above := object.SignatureOf("", "web"), slices.Repeat([]string{"a"}, levels)
	value, owned := map[string]any{}, map[string]any{}
	var one, all [][]string
	for i := range fields {
		key := fmt.Sprintf("key%d", i)
		value[key], owned["f:"+key] = "x", map[string]any{}
		if i < maxIgnored {
			all = append(all, append(slices.Clone(above), key))
		}
	}
	one = all[:1]
	for _, name := range above {
		value, owned = map[string]any{name: value}, map[string]any{"f:" + name: owned}
	}
	entry := func(manager, operation string) map[string]any {
		return map[string]any{"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": owned}
	}
	live := &unstructured.Unstructured{Object: map[string]any{"a": value["a"], "metadata": map[string]any{
		"managedFields": []any{entry(by.Manager, "Apply"), entry("tuner", "Update")},
	}}}
	body, err := json.Marshal(value)
	require.NoError(t, err)
	without := func(m managedPaths, n int) func() {
		ign := Exemptions(slices.Repeat([]managedPaths{m}, n))
		return func() {
			_, _, err := ign.Without(body, live, live, by)
			require.NoError(t, err)
		}
	}
	little := fixture.ProcessorTime(t, without(managedPaths{paths: one, managers: []string{"tuner"}}, 1))
	for name, do := range map[string]func(){
		"All":   without(managedPaths{managers: []string{"tuner"}}, rules),
		"Paths": without(managedPaths{paths: all, managers: []string{"tuner"}}, 1),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		do()
		runtime.ReadMemStats(&after)
		took := fixture.ProcessorTime(t, do)
		t.Logf("%s: %d MB, %s; with a rule for a path %s", name, (after.TotalAlloc-before.TotalAlloc)>>20, took, little)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20), name)
		require.Less(t, took, 20*little, name)
	}
}

// TestWithoutManyManagers has a rule with as many managers as a rule may have, for long paths that share no names: the managers share one tree.
func TestWithoutManyManagers(t *testing.T) {
	const fields, levels, managers = 100, 240, 64
	value, names := map[string]any{}, make([]string, managers)
	var paths [][]string
	for i := range fields {
		name, at := fmt.Sprintf("key%d", i), map[string]any{"a": "x"}
		for range levels - 1 {
			at = map[string]any{"a": at}
		}
		value[name], paths = at, append(paths, append([]string{name}, slices.Repeat([]string{"a"}, levels)...))
	}
	for i := range names {
		names[i] = fmt.Sprintf("tuner%d", i)
	}
	body, err := json.Marshal(value)
	require.NoError(t, err)
	live := &unstructured.Unstructured{Object: value}
	allocated := func(managers []string) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		ign := Exemptions{{paths: paths, managers: managers}}
		_, _, err := ign.Without(body, live, live, object.SignatureOf("", "web"))
		require.NoError(t, err)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	one, all := allocated(names[:1]), allocated(names)
	t.Logf("for %d bytes: %d bytes with a manager, %d with %d", len(body), one, all, managers)
	require.Less(t, all, 2*one)
}

// TestMemoryOfIgnoreRules: the ignored fields that are kept with an object take a small multiple of its size, or share the memory of the rules.
func TestMemoryOfIgnoreRules(t *testing.T) {
	const levels, objects = 240, 16
	nested := func(value any) map[string]any {
		for range levels {
			value = map[string]any{"a": value}
		}
		return value.(map[string]any) //nolint:forcetypeassert // levels is positive
	}
	above := strings.Repeat("/a", levels)
	cases := map[string]struct {
		value any
		paths []string
		fits  bool
	}{
		"Fields":    {map[string]any{"b": "c"}, slices.Repeat([]string{above + "/b", above + "/missing"}, 32), true},
		"Items":     {slices.Repeat([]any{map[string]any{"b": "c", "d": strings.Repeat("x", levels)}}, maxIgnored), []string{above + "/[b=c]/d"}, true},
		"DeepItems": {slices.Repeat([]any{map[string]any{"b": "c"}}, maxIgnored), []string{above + "/[b=c]"}, false},
	}
	for name, tc := range cases {
		obj := &unstructured.Unstructured{Object: nested(tc.value)}
		rules, err := rulesOf(&v1alpha1.VidraResource{Spec: v1alpha1.VidraResourceSpec{Drift: &v1alpha1.DriftPolicy{
			Ignore: []v1alpha1.IgnoreRule{{Paths: tc.paths}},
		}}})
		require.NoError(t, err)
		all, size := make([]Object, objects), 0
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range all {
			all[i].Body, err = json.Marshal(obj)
			require.NoError(t, err)
			size += len(all[i].Body)
			*rules.steps = maxIgnoreSteps
			if err = all[i].setIgnoreRules(rules.of(obj), obj, rules.steps); !tc.fits {
				require.ErrorContains(t, err, "deeper items of its lists than its size permits", name)
				break
			}
			require.NoError(t, err, name)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		kept := int(after.HeapAlloc) - int(before.HeapAlloc) //nolint:gosec // of a small heap
		t.Logf("%s: %d bytes are kept with %d bytes of objects", name, kept, size)
		if tc.fits {
			require.Less(t, kept, 40*size+objects*10_000, name)
		}
		runtime.KeepAlive(all)
	}
}
