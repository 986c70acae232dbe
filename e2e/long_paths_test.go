package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestMemoryOfLongPaths has an edit of thousands of fields below 200 levels whose names have 900 bytes, and one that adds as many beside a removed field.
// An operator that may take 512 MiB reverts both. The API server applies no names of more than 1,024 bytes: it reads an apply as YAML.
func TestMemoryOfLongPaths(t *testing.T) {
	stopOperator(t)
	limited := startPlainOperator(t, "MEMORY_LIMIT="+strconv.Itoa(hostileMemory))
	const fields, levels, nameBytes, most = 4_000, 200, 900, 300 << 20
	path := append([]string{"spec"}, slices.Repeat([]string{strings.Repeat("k", nameBytes)}, levels)...)
	below := func(fields string) string {
		return strings.Repeat(fmt.Sprintf("{%q:", path[1]), levels) + "{" + fields + "}" + strings.Repeat("}", levels)
	}
	var manifest, changes, additions strings.Builder
	for i := range fields {
		fmt.Fprintf(&manifest, `"key-%04d":"a",`, i)
		fmt.Fprintf(&changes, `,"key-%04d":"b"`, i)
		fmt.Fprintf(&additions, `,"theirs-%04d":"b"`, i)
	}
	ns := newNamespace(t)
	text := customKind(t, "type: object\nx-kubernetes-preserve-unknown-fields: true\n") + "  " + below(manifest.String()+`"gone":"a"`) + "\n"
	newVidraResource(t, ns, text)
	awaitReadyIgnoringHealth(t, ns)
	obj := declaredObject(t, ns, text, "Thing", "web")
	before := memoryOf(t, limited.PID)
	for i, edit := range []string{`"gone":"b"` + changes.String(), `"gone":null` + additions.String()} {
		require.NoError(t, mergePatch(obj, `{"spec":%s}`, below(edit)))
		cluster.AwaitObject(t, 2*patience, obj, func(c *assert.CollectT) {
			spec, _, err := unstructured.NestedStringMap(obj.Object, path...)
			require.NoError(c, err)
			require.Len(c, spec, fields+1)
			require.Equal(c, "a", spec["gone"])
			require.Equal(c, "a", spec["key-3999"])
		})
		await(t, func(c *assert.CollectT) { require.Len(c, getVidraResource(t, ns).Status.History, i+1) })
	}
	took := memoryOf(t, limited.PID)
	t.Logf("%s before the edits, %s at most", before, took)
	require.Less(t, took, memory(most))
	require.NoError(t, limited.Err(), "it runs")
}
