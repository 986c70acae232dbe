package desired

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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
		ign := Ignored{managed: slices.Repeat([]managedPaths{m}, n)}
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
