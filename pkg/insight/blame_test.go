package insight

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/pkg/ownership"
)

// objectOf reads an object.
func objectOf(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	body, err := yaml.YAMLToJSON([]byte(text))
	require.NoError(t, err)
	obj := &unstructured.Unstructured{}
	require.NoError(t, obj.UnmarshalJSON(body))
	return obj
}

// TestBlameOfEdits has each edit beside the line on which its field begins.
func TestBlameOfEdits(t *testing.T) {
	live := objectOf(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  containers:
  - image: a
    name: web
  - name: helper
    ports: [{port: 80}]
  selector: {app: web}
  tags: [red, green]
  template: {hostname: a}
`)
	tests := map[string]struct{ reason, fields, line string }{
		"Value":     {reason: "a scalar", fields: `spec.containers[name="web"].image`, line: "  - image: a"},
		"Item":      {reason: "an item begins with its first field", fields: `spec.containers[name="helper"]`, line: "  - name: helper"},
		"List":      {reason: "a list that is owned as a whole", fields: `spec.containers[name="helper"].ports`, line: "    ports:"},
		"Map":       {reason: "a map that is owned as a whole", fields: "spec.selector", line: "  selector:"},
		"SetItem":   {reason: "a scalar in a list", fields: `spec.tags[="green"]`, line: "  - green"},
		"Empty":     {reason: "a list that has no line", fields: "spec.template.empty", line: "  template:"},
		"TwoFields": {reason: "the item and its name begin on one line", fields: `spec.containers[name="helper"],spec.containers[name="helper"].name`, line: "  - name: helper"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := &blamed{subject: &subject{live: live}, known: ownership.Disclose(false, false, false), writers: ownership.WritersOf(live), edits: []Edit{{Note: "older"}, {Note: "edited", Fields: tt.fields}}}
			b.paths = map[string]string{
				"/spec/containers/0/image": `spec.containers[name="web"].image`, "/spec/containers/1": `spec.containers[name="helper"]`,
				"/spec/containers/1/name": `spec.containers[name="helper"].name`, "/spec/containers/1/ports": `spec.containers[name="helper"].ports`,
				"/spec": "spec", "/spec/template": "spec.template", "/spec/selector": "spec.selector", "/spec/tags/1": `spec.tags[="green"]`,
			}
			lines, err := b.lines()
			require.NoError(t, err)
			var edited []string
			for _, line := range lines {
				for range line.Edits {
					edited = append(edited, line.Text)
				}
			}
			require.Equal(t, []string{tt.line}, edited, tt.reason)
		})
	}
}

// TestBlameOfLongPaths: the memory for the lines of many fields below a long path does not grow with the product of the two.
func TestBlameOfLongPaths(t *testing.T) {
	const n, most = 5_000, 256 << 20
	values, fields, name := map[string]any{}, map[string]any{}, strings.Repeat("k", 1_000) // YAML has no longer names
	for i := range n {
		values[fmt.Sprint(i)], fields[fmt.Sprint("f:", i)] = "value", map[string]any{}
	}
	for range 200 {
		values, fields = map[string]any{name: values}, map[string]any{"f:" + name: fields}
	}
	live := objectOf(t, "{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}}")
	live.Object["spec"] = values
	require.NoError(t, unstructured.SetNestedSlice(live.Object, []any{map[string]any{
		"manager": "kubectl", "operation": "Update", "apiVersion": "example.com/v1", "fieldsType": "FieldsV1",
		"fieldsV1": map[string]any{"f:spec": fields},
	}}, "metadata", "managedFields"))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b := &blamed{subject: &subject{live: live}, known: ownership.Disclose(false, false, false), writers: ownership.WritersOf(live)}
	lines, err := b.lines()
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(most))
	last := lines[len(lines)-1]
	require.Equal(t, "kubectl", last.Managers[0].Manager)
	require.Empty(t, last.Pointer, "its pointer has 200,000 bytes")
}
