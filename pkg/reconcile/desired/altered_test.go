package desired

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/pkg/ownership"
)

func TestAltered(t *testing.T) {
	tests := map[string]struct {
		reason     string
		sent, held string
		before     ownership.Sensitivity
		want       []string
	}{
		"same":      {reason: "what is there besides is no difference", sent: `data: {a: x}`, held: `data: {a: x, b: y}`},
		"value":     {reason: "another value is", sent: `data: {a: x}`, held: `data: {a: z}`, want: []string{`data.a is "z", and the manifest says "x": because`}},
		"missing":   {reason: "none is, too", sent: `data: {a: x}`, held: `data: {}`, want: []string{`data.a is missing, and the manifest says "x": because`}},
		"empty":     {reason: "what is empty is left out", sent: `{data: {a: ""}, spec: {on: false, n: 0, none: null, list: [], map: {}}}`, held: `{}`},
		"quantity":  {reason: "quantities are written in many ways", sent: `spec: {cpu: "0.5", memory: 1024Mi, n: 1}`, held: `spec: {cpu: 500m, memory: 1Gi, n: "1"}`},
		"duration":  {reason: "and so are durations", sent: `spec: {d: 720h}`, held: `spec: {d: 720h0m0s}`},
		"names":     {reason: "items with names may stand in another order", sent: `l: [{name: a, v: 1}, {name: b, v: 2}]`, held: `l: [{name: injected}, {name: b, v: 2}, {name: a, v: 3}]`, want: []string{`l[name="a"].v is 3, and the manifest says 1: because`}},
		"one name":  {reason: "items with the same name are compared by position", sent: `l: [{name: a, ns: shop}, {name: a, ns: web}, {name: b}]`, held: `l: [{name: a, ns: shop}, {name: a, ns: other}, {name: b}]`, want: []string{`l[1].ns is "other", and the manifest says "web": because`}},
		"one more":  {reason: "several items with the same name are left out of lists of another length", sent: `l: [{name: a, ns: x}]`, held: `l: [{name: a, ns: z}, {name: a, ns: x}]`},
		"replaced":  {reason: "an absent name is left out", sent: `l: [{name: a, v: 1}]`, held: `l: [{name: b, v: 2}]`},
		"in order":  {reason: "others may not", sent: `l: [x, v]`, held: `l: [x, z]`, want: []string{`l[1] is "z", and the manifest says "v": because`}},
		"more":      {reason: "of a list that is longer nobody can say", sent: `l: [x, v]`, held: `l: [w, x, v]`},
		"many":      {reason: "a few are enough", sent: `data: {a: x, b: x, c: x, d: x, e: x}`, held: `{}`, want: []string{`data.a is missing, and the manifest says "x": because`, `data.b is missing, and the manifest says "x": because`, `data.c is missing, and the manifest says "x": because`, "and 2 more fields"}},
		"base64":    {reason: "base64 with line ends is the same", sent: `{binaryData: {a: "aGVs\nbG8="}}`, held: `{binaryData: {a: aGVsbG8=}}`},
		"dotted":    {reason: "a name with dots is quoted, as in Events", sent: `data: {a.b: x}`, held: `data: {a.b: z}`, want: []string{`data["a.b"] is "z", and the manifest says "x": because`}},
		"status":    {reason: "which is not applied", sent: `status: {a: x}`, held: `status: {a: y}`},
		"sensitive": {reason: "values of a Secret are not told", sent: `{apiVersion: v1, kind: Secret, data: {a: x}}`, held: `{apiVersion: v1, kind: Secret, data: {a: y}}`, want: []string{`data.a is not what the manifest says: because`}},
		"before":    {reason: "nor those of an object that was sensitive before", before: true, sent: `data: {a: x}`, held: `data: {a: y}`, want: []string{`data.a is not what the manifest says: because`}},
		"manifest":  {reason: "nor those of one that the manifest calls sensitive", sent: `{metadata: {annotations: {infrahub.operators.com/sensitive: "true"}}, data: {a: x}}`, held: `{metadata: {annotations: {infrahub.operators.com/sensitive: "true"}}, data: {a: y}}`, want: []string{`data.a is not what the manifest says: because`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			sent, held := &unstructured.Unstructured{}, &unstructured.Unstructured{}
			require.NoError(t, yaml.Unmarshal([]byte(tt.sent), &sent.Object))
			require.NoError(t, yaml.Unmarshal([]byte(tt.held), &held.Object))
			require.Equal(t, tt.want, Altered(Differences(sent, held), "because", sent, held, ownership.Disclose(tt.before, false, false)), tt.reason)
		})
	}
}

// TestMemoryOfDifferences has thousands of fields below a path of 60 KB that the API server does not hold: the memory does not grow with the product.
func TestMemoryOfDifferences(t *testing.T) {
	const n, most = 4_000, 16 << 20
	fields := map[string]any{}
	for i := range n {
		fields[fmt.Sprintf("key-%04d", i)] = "x"
	}
	for _, name := range slices.Repeat([]string{strings.Repeat("k", 300)}, 200) {
		fields = map[string]any{name: fields}
	}
	sent, held := &unstructured.Unstructured{Object: fields}, &unstructured.Unstructured{}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	differences := Differences(sent, held)
	runtime.ReadMemStats(&after)
	t.Logf("%d MB", (after.TotalAlloc-before.TotalAlloc)>>20)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(most))
	require.Len(t, differences, n)
	require.Regexp(t, `\.key-0001 is missing`, Altered(differences, "because", sent, held, ownership.Disclose(false, false, false))[1])
}

// TestSignature: the signature of differences has their fields, and not their values.
func TestSignature(t *testing.T) {
	t.Parallel()
	of := func(text string) uint64 {
		sent := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(text), &sent.Object))
		return Signature(Differences(sent, &unstructured.Unstructured{}))
	}
	require.Equal(t, of(`{a: {b: x, c: x}}`), of(`{a: {b: y, c: z}}`))
	for _, other := range []string{`{a: {b: x}}`, `{a: {b: x, d: x}}`, `{b: {b: x, c: x}}`, `{a: {b: x}, c: x}`, `{a: {b: x, c: x}, d: x}`, `{ab: {b: x, c: x}}`} {
		require.NotEqual(t, of(`{a: {b: x, c: x}}`), of(other), other)
	}
}
