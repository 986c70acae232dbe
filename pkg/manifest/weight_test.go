package manifest

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWeightBoundsMemory parses the texts that take the most memory for their size, and
// measures how much that is.
func TestWeightBoundsMemory(t *testing.T) {
	const (
		size   = 150_000
		object = "apiVersion: v1\nkind: X\nmetadata: {name: a}\n"
		begin  = `{"apiVersion":"v1","kind":"X","metadata":{"name":"a"},"x":[`
	)
	fill := func(part string) string { return strings.Repeat(part, size/len(part)) }
	each := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	cases := map[string]struct {
		reason string
		text   string
	}{
		"FlowScalars":   {"one letter and a comma is a value", object + "x: [" + fill("a,") + "a]"},
		"EmptyMaps":     {"so are two braces", object + "x: [" + fill("{},") + "{}]"},
		"ImplicitMaps":  {"a pair in a flow sequence is a mapping", object + "x: [" + fill("a:,") + "a]"},
		"NestedLists":   {"brackets need no comma", object + "x: [" + fill("[[[[[[[[]]]]]]]],") + "a]"},
		"FlowKeys":      {"a key of a flow mapping needs no value", object + "x: {" + each("a%x,") + "a}"},
		"Block":         {"a dash is a value", object + "x:\n" + fill("-\n")},
		"BlockNested":   {"so is each of several", object + "x:\n" + fill("- - - -\n")},
		"Comments":      {"comments are kept", object + "x: [\n" + fill("a,#\n") + "]"},
		"BlockComments": {"also those in between", object + "x:\n" + fill("#\n#\n\n- a\n")},
		"JSONNumbers":   {"JSON is read by another parser", begin + fill("1,") + "1]}"},
		"JSONMaps":      {"a mapping of one entry takes most", begin + fill(`{"":{"":{"":{}}}},`) + "1]}"},
		"JSONAsYAML":    {"what is JSON but for its end is read twice", begin + fill(`{"":{"":{}}},`) + "1]} x"},
		"Documents":     {"each document has a parser", each("{apiVersion: v1,kind: A,metadata: {name: a%x}}\n---\n")},
		"JSONObjects":   {"JSON objects need nothing in between", each(`{"apiVersion":"v1","kind":"A","metadata":{"name":"%x"}}`)},
		"Items":         {"items inherit their kind", "apiVersion: v1\nkind: AList\nitems:\n" + each("- {metadata: {name: a%x}}\n")},
		"Aliases":       {"an alias is a copy", object + "y: &a {}\nx: [" + fill("*a,") + "a]"},
		"Text":          {"a text is a single value", object + "x: |\n  " + fill("abcdefg ")},
		"Escapes":       {"escapes are shorter than what they stand for", object + `x: "` + fill(`\L`) + `"`},
	}
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	worst := map[string]float64{}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			peak := peakMemory(func() {
				_, _ = Parse(tc.text, Options{})
			})
			worst[name] = float64(peak) / float64(len(tc.text))
			t.Logf("%.0f bytes for each byte of the text, and the weight is %.0f", worst[name], float64(Weight(tc.text))/float64(len(tc.text)))
			const noise = 2 << 20 // what the runtime itself takes and gives back meanwhile
			require.Less(t, peak, Weight(tc.text)+noise, tc.reason)
		})
	}
	require.Greater(t, worst["Comments"], 50.0, "the measurement sees what Parse takes")
}

// peakMemory returns how many bytes more the heap held while do ran, at most.
func peakMemory(do func()) int64 {
	used := func() int64 {
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc) //nolint:gosec // far from overflowing
	}
	runtime.GC()
	before := used()
	var peak atomic.Int64
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for ticker := time.Tick(time.Millisecond); ; {
			peak.Store(max(peak.Load(), used()))
			select {
			case <-done:
				return
			case <-ticker:
			}
		}
	}()
	do()
	close(done)
	<-ended
	return peak.Load() - before
}

func TestParseLimitsObjectsAndValues(t *testing.T) {
	list := func(n int) string { return "x: [" + strings.Repeat("a,", n-1) + "a]\n" }
	named := func(name string) string { return "apiVersion: v1\nkind: X\nmetadata: {name: " + name + "}\n" }
	const own = 11 // the object, the eight nodes of its identity, x and its list
	cases := map[string]struct {
		reason  string
		text    string
		options Options
		want    string
	}{
		"Objects":        {"the limit itself is allowed", configMap("a") + "---\n" + configMap("b"), Options{Objects: MaxObjects - 2}, ""},
		"TooManyObjects": {"the error names the first one too many", configMap("a") + "---\n" + configMap("b"), Options{Objects: MaxObjects - 1}, "document 2, line 6: ConfigMap b: the manifest holds more than 5000 objects"},
		"TooManyItems":   {"items of lists count", "apiVersion: v1\nkind: XList\nitems:\n- {metadata: {name: a}}\n- {metadata: {name: b}}\n- {metadata: {name: c}}\n", Options{Objects: MaxObjects - 1}, "document 1, line 5, item 2: X b: the manifest holds more than 5000 objects"},
		"Values":         {"the limit itself is allowed", named("a") + list(MaxValues-own), Options{}, ""},
		"TooManyValues":  {"the error names the line", named("a") + list(MaxValues), Options{}, "document 1, line 4: X a: the object has more than 100000 values"},
		"EachObject":     {"each object has a limit of its own", named("a") + list(MaxValues-own) + "---\n" + named("b") + list(MaxValues-own), Options{}, ""},
		"Aliases":        {"a value counts as often as it is repeated", named("a") + "y: &y [a, b, c, d, e, f, g, h]\nx: [" + strings.Repeat("*y,", MaxValues/9) + "*y]\n", Options{MaxBytes: 10 << 20}, "X a: the object has more than 100000 values"},
		"AllValues":      {"and all together have one", named("a") + list(1000) + "---\n" + named("b") + list(1000), Options{Values: MaxTotalValues - 1500}, "document 2, line 9: X b: the objects up to here have more than 500000 values"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(tc.text, tc.options)
			if tc.want == "" {
				require.NoError(t, err, tc.reason)
				return
			}
			require.ErrorContains(t, err, tc.want, tc.reason)
			var errs Errors
			require.ErrorAs(t, err, &errs)
			require.Len(t, errs, 1, "nothing is read beyond the limit")
		})
	}
}
