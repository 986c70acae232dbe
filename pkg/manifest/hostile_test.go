package manifest

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// laughs returns a document in which each of n anchors holds nine aliases of the
// one before it, between open and end.
func laughs(n int, first, open, end string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: v1\nkind: X\nmetadata: {name: a}\nl0: &l0 %s\n", first)
	for i := 1; i <= n; i++ {
		alias := fmt.Sprintf("*l%d", i-1)
		fmt.Fprintf(&b, "l%d: &l%d %s%s%s\n", i, i, open, strings.Join([]string{alias, alias, alias, alias, alias, alias, alias, alias, alias}, ", "), end)
	}
	return b.String()
}

func TestParseWithstandsHostileText(t *testing.T) {
	mergeLaughs := "apiVersion: v1\nkind: X\nmetadata: {name: a}\nl0: &l0 {k: v}\n"
	for i := 1; i <= 12; i++ {
		a := fmt.Sprintf("*l%d", i-1)
		mergeLaughs += fmt.Sprintf("l%d: &l%d {<<: [%s, %s, %s, %s, %s]}\n", i, i, a, a, a, a, a)
	}
	listLaughs := strings.Replace(laughs(9, "{apiVersion: v1, kind: List, items: []}", "{apiVersion: v1, kind: List, items: [", "]}"),
		"kind: X", "kind: List\nitems: [*l9]", 1)
	cases := map[string]struct {
		reason string
		text   string
		want   string
	}{
		"BillionLaughs":       {"aliases of aliases grow without bound", laughs(9, "lol", "[", "]"), "aliases expand"},
		"BillionLaughsMaps":   {"mappings do so as well", strings.ReplaceAll(laughs(9, "{a: b}", "[", "]"), "[", "[{z: 1}, "), "aliases expand"},
		"BillionLaughsMerge":  {"so do merge keys, which end as one small mapping", mergeLaughs, "aliases expand"},
		"BillionLaughsList":   {"so do lists of lists", "x: 1\n" + listLaughs, ""},
		"LargeScalar":         {"so does one long text with many aliases", laughs(1, strings.Repeat("x", 1<<20), "[", "]"), "aliases expand"},
		"BillionEmptyLists":   {"lists without items cost time", strings.Replace(laughs(9, "{apiVersion: v1, kind: List, items: []}", "{apiVersion: v1, kind: List, items: [", "]}"), "apiVersion: v1\nkind: X\nmetadata: {name: a}\n", "", 1) + "apiVersion: v1\nkind: List\nitems: [*l9]\n", "aliases expand"},
		"BillionFaults":       {"items that are faults cost time", strings.Replace(laughs(9, "1", "{apiVersion: v1, kind: List, items: [", "]}"), "apiVersion: v1\nkind: X\nmetadata: {name: a}\n", "", 1) + "apiVersion: v1\nkind: List\nitems: [*l9]\n", "must be an object"},
		"DeepFlow":            {"brackets nest", "a: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "256 levels"},
		"DeepBlock":           {"dashes nest", strings.Repeat("- ", 5000) + "a", "must be an object"},
		"DeepBlockInObject":   {"in an object as well", configMap("a") + "x:\n" + strings.Repeat("- ", 5000) + "a", "256 levels"},
		"DeepBeyondTheParser": {"the parser has a limit of its own", "a: " + strings.Repeat("[", 100_000), "cannot be read as YAML"},
		"DeepJSON":            {"JSON nests", `{"a": ` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}", "256 levels"},
		"DeepLists":           {"lists of objects nest", strings.Repeat("{apiVersion: v1, kind: List, items: [", 5000) + strings.Repeat("]}", 5000), "256 levels"},
		"ManyDocuments":       {"documents are many", strings.Repeat("---\n", DefaultMaxBytes/4), ""},
		"ManyBadDocuments":    {"and all of them bad", strings.Repeat("-\n---\n", DefaultMaxBytes/6), "must be an object"},
		"ManyJSON":            {"JSON values are many", strings.Repeat("{}", DefaultMaxBytes/2), "has no"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before, start := allocated(), time.Now()
			_, err := Parse(tc.text, Options{})
			took, used := time.Since(start), allocated()-before
			if tc.want == "" {
				require.True(t, err == nil || strings.Contains(err.Error(), "document 1"), tc.reason)
			} else {
				require.ErrorContains(t, err, tc.want, tc.reason)
			}
			require.Less(t, took, time.Second, tc.reason)
			require.Less(t, used, uint64(256<<20), "bytes allocated in total: %s", tc.reason)
		})
	}
}

// allocated returns how many bytes were allocated so far.
func allocated() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.TotalAlloc
}

func TestParseLimitsTheSize(t *testing.T) {
	text := configMap("a")
	objects, err := Parse(text, Options{MaxBytes: len(text)})
	require.NoError(t, err, "the limit itself is allowed")
	require.Len(t, objects, 1)

	_, err = Parse(text, Options{MaxBytes: len(text) - 1})
	require.EqualError(t, err, fmt.Sprintf("the manifest has %d bytes, and the limit is %d: split it in several", len(text), len(text)-1))

	_, err = Parse(strings.Repeat("#", DefaultMaxBytes+1), Options{})
	require.ErrorContains(t, err, "the limit is 1572864", "the default is etcd's limit")
}

func TestParseAllowsOrdinaryAliases(t *testing.T) {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nkind: List\nx: &x {app: shop, tier: web, team: a, part-of: b}\nitems:\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "- {apiVersion: v1, kind: ConfigMap, metadata: {name: a%d, labels: *x}}\n", i)
	}
	objects, err := Parse(b.String(), Options{})
	require.NoError(t, err, "a set of labels that a thousand objects share is no attack")
	require.Len(t, objects, 1000)
	require.Equal(t, "shop", objects[999].GetLabels()["app"])
}
