package manifest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
)

// marshalObjects returns the objects as a stream of JSON.
func marshalObjects(t testing.TB, objects []Object) string {
	t.Helper()
	var b strings.Builder
	for _, o := range objects {
		data, err := o.MarshalJSON()
		require.NoError(t, err)
		b.Write(data)
	}
	return b.String()
}

// FuzzParse looks for a text that makes Parse panic, or whose objects are not the
// same when they are read from their own JSON.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		configMap("a") + "--- # c\n" + configMap("b"),
		jsonConfigMap("a") + jsonConfigMap("b"),
		"\uFEFF%YAML 1.1\n---\r\n" + configMap("a") + "...\r\n",
		"apiVersion: v1\nkind: List\nitems:\n- &a {apiVersion: v1, kind: X, metadata: {name: a, labels: {a: b}}}\n- *a\n",
		"apiVersion: v1\nkind: XList\nitems: [{metadata: {name: a}}]\n",
		"apiVersion: v1\nkind: X\nmetadata: {name: a, uid: b}\nx: [0644, 1e3, 1.5, yes, ~, 2001-01-01, !!binary aGk=, '\\', \"\\u00e9\"]\n",
		"apiVersion: v1\nkind: X\nmetadata: {name: {{ .a }}}\n",
		"a: &a [*a]\n", "a: *b\n", "a: {<<: {b: c}, b: d}\n", "---\n{\n", "{{", "a:\n\t- b\n", "\u2028---\u2028",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		objects, err := Parse(text, Options{MaxBytes: 1 << 16})
		if err != nil {
			require.Nil(t, objects)
			var all Errors
			require.ErrorAs(t, err, &all)
			require.NotEmpty(t, all)
			return
		}
		lines := lineAt(text, len(text))
		for _, o := range objects {
			require.Positive(t, o.Position.Document)
			require.Positive(t, o.Position.Line)
			if !strings.ContainsAny(text, "\u0085\u2028\u2029") { // Line breaks of YAML 1.1 only.
				require.LessOrEqual(t, o.Position.Line, lines)
			}
			// DeepCopyJSON panics on anything that unstructured content may not hold.
			require.Equal(t, o.Object, runtime.DeepCopyJSON(o.Object))
		}

		again, err := Parse(marshalObjects(t, objects), Options{MaxBytes: 1 << 24})
		require.NoError(t, err)
		require.Len(t, again, len(objects))
		for i := range objects {
			require.Equal(t, objects[i].Object, again[i].Object)
		}
	})
}

// manyObjects returns a manifest of n small objects.
func manyObjects(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "---\n# Source: chart/templates/configmap.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: config-%d\n"+
			"  namespace: shop\n  labels:\n    app.kubernetes.io/name: shop\n    app.kubernetes.io/part-of: demo\ndata:\n  key: \"value %d\"\n  other: |\n    a\n    b\n", i, i)
	}
	return b.String()
}

func BenchmarkParse(b *testing.B) {
	yaml := manyObjects(1000)
	objects, err := Parse(yaml, Options{})
	require.NoError(b, err)
	json := marshalObjects(b, objects)
	for name, text := range map[string]string{"YAML1000": yaml, "JSON1000": json, "YAML1": manyObjects(1)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := Parse(text, Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkResolve(b *testing.B) {
	objects, err := Parse(strings.ReplaceAll(manyObjects(1000), "  namespace: shop\n", ""), Options{})
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		placed, err := Resolve(objects, "shop", namespaced)
		if err != nil || len(placed) != len(objects) {
			b.Fatal(err)
		}
	}
}
