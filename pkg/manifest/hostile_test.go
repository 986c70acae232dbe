package manifest

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// laughs returns an object in which each of n anchors holds nine aliases of the
// one before it, between open and end.
func laughs(n int, first, open, end string) string {
	text := "apiVersion: v1\nkind: X\nmetadata: {name: a}\nl0: &l0 " + first + "\n"
	for i := 1; i <= n; i++ {
		text += fmt.Sprintf("l%d: &l%d %s%s%s\n", i, i, open, aliases(i-1, 9), end)
	}
	return text
}

// aliases returns n aliases, with commas in between, of the anchor l<level>.
func aliases(level, n int) string {
	return strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*l%d, ", level), n), ", ")
}

func TestParseWithstandsAliasesAndNesting(t *testing.T) {
	merges := "apiVersion: v1\nkind: X\nmetadata: {name: a}\nl0: &l0 {k: v}\n"
	for i := 1; i <= 12; i++ {
		merges += fmt.Sprintf("l%d: &l%d {<<: [%s]}\n", i, i, aliases(i-1, 5))
	}
	lists := func(first string) string {
		text := "apiVersion: v1\nkind: List\nitems:\n- &l0 " + first + "\n"
		for i := 1; i <= 9; i++ {
			text += fmt.Sprintf("- &l%d {apiVersion: v1, kind: List, items: [%s]}\n", i, aliases(i-1, 9))
		}
		return text
	}
	cases := map[string]struct {
		reason string
		text   string
		want   string
	}{
		"BillionLaughs":       {"aliases of aliases grow without bound", laughs(9, "lol", "[", "]"), "aliases expand"},
		"BillionLaughsMaps":   {"mappings do so as well", strings.ReplaceAll(laughs(9, "{a: b}", "[", "]"), "[", "[{z: 1}, "), "aliases expand"},
		"BillionLaughsMerge":  {"so do merge keys, which end as one small mapping", merges, "aliases expand"},
		"LargeScalar":         {"so does one long text with many aliases", laughs(1, strings.Repeat("x", 1<<20), "[", "]"), "aliases expand"},
		"BillionEmptyLists":   {"lists without items cost time", lists("{apiVersion: v1, kind: List, items: []}"), "aliases expand"},
		"BillionFaults":       {"items that are faults cost time", lists("1"), "must be an object"},
		"DeepFlow":            {"brackets nest", "a: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "256 levels"},
		"DeepBlock":           {"dashes nest", strings.Repeat("- ", 5000) + "a", "must be an object"},
		"DeepBlockInObject":   {"in an object as well", configMap("a") + "x:\n" + strings.Repeat("- ", 5000) + "a", "256 levels"},
		"DeepBeyondTheParser": {"the parser has a limit of its own", "a: " + strings.Repeat("[", 100_000), "cannot be read as YAML"},
		"DeepJSON":            {"JSON nests", `{"a": ` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}", "256 levels"},
		"DeepLists":           {"lists of objects nest", strings.Repeat("{apiVersion: v1, kind: List, items: [", 5000) + strings.Repeat("]}", 5000), "256 levels"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before, start := allocated(), time.Now()
			_, err := Parse(tc.text, Options{})
			took, used := time.Since(start), allocated()-before
			require.ErrorContains(t, err, tc.want, tc.reason)
			require.Less(t, took, 5*time.Second, tc.reason) // it takes a few tenths, and the machine may be busy
			require.Less(t, used, uint64(64<<20), "bytes allocated in total: %s", tc.reason)
		})
	}
}

// TestParseIsLinear reads texts of the full size. Work that grew with the square
// of the size would take many minutes.
func TestParseIsLinear(t *testing.T) {
	var directives strings.Builder
	for i := 0; directives.Len() < DefaultMaxBytes-100; i++ {
		fmt.Fprintf(&directives, "%%TAG !a%d! tag:a,2000:\n", i)
	}
	broken := strings.ReplaceAll(directives.String()[:DefaultMaxBytes/2], "\n", "\u2028")
	cases := map[string]struct {
		reason string
		text   string
		want   string
	}{
		"ManyDocuments":    {"documents are many", strings.Repeat("---\n", DefaultMaxBytes/4), ""},
		"ManyBadDocuments": {"and all of them bad", strings.Repeat("-\n---\n", DefaultMaxBytes/6), "must be an object"},
		"ManyJSON":         {"JSON values are many", strings.Repeat("{}", DefaultMaxBytes/2), "has no"},
		"ManyJSONComments": {"also with comments in between", strings.Repeat("{}#\n", DefaultMaxBytes/4), "has no"},
		"ManyComments":     {"comments are many", strings.Repeat("#\n", DefaultMaxBytes/2), ""},
		"ManyScalars":      {"values are many", "a: [" + strings.Repeat("a,", DefaultMaxBytes/2-4) + "]", "more than 100000 values"},
		"ManyDirectives":   {"directives are many, and each has another name", directives.String() + "---\na: 1", "more than 16 directives"},
		"ManyBroken":       {"also with line breaks of YAML alone", broken + "---\na: 1", "more than 16 directives"},
		"ManyMarked":       {"also behind byte order marks", "\ufeff\ufeff" + directives.String() + "---\na: 1", "more than 16 directives"},
		"ManyBehind":       {"also behind a document", "a: 1\u2028...\u2028" + broken + "---\na: 1", "more than 16 directives"},
		"ManyTexts":        {"texts are no directives", "a: [" + strings.Repeat("'%TAG',", 100) + "]", "has no"},
		"LongLine":         {"a line is long", "a: " + strings.Repeat("a", DefaultMaxBytes-3), "has no"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := Parse(tc.text, Options{})
			require.Less(t, time.Since(start), time.Minute, tc.reason) // it takes seconds, and the machine may be busy
			if tc.want == "" {
				require.NoError(t, err, tc.reason)
			} else {
				require.ErrorContains(t, err, tc.want, tc.reason)
			}
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
