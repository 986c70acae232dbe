package ownership

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestDigestOfEveryForm has one case for each form in which a field can be owned
// and a value can be written.
func TestDigestOfEveryForm(t *testing.T) {
	constant := func(int) int { return 1 }
	cases := map[string]struct {
		reason        string
		fields        string
		before, after string
		same          bool
	}{
		"OrderOfMaps":           {"Maps have no order.", `{"f:a":{}}`, `"a":{"x":1,"y":2}`, `"a":{"y":2,"x":1}`, true},
		"OrderOfAtomicList":     {"Lists that are owned as a whole do.", `{"f:a":{}}`, `"a":[1,2]`, `"a":[2,1]`, false},
		"AtomicMap":             {"A map that is owned as a whole counts with foreign keys.", `{"f:a":{}}`, `"a":{"x":1}`, `"a":{"x":1,"y":2}`, false},
		"GranularMap":           {"In a granular map only what is owned counts.", `{"f:a":{"f:x":{}}}`, `"a":{"x":1}`, `"a":{"x":1,"y":2}`, true},
		"GranularMapItself":     {`"." says that the map is ours, not what others put into it.`, `{"f:a":{".":{},"f:x":{}}}`, `"a":{"x":1}`, `"a":{"x":1,"y":2}`, true},
		"GranularMapGone":       {"A map that is gone took with it what is ours.", `{"f:a":{".":{},"f:x":{}}}`, `"a":{"x":1}`, `"b":1`, false},
		"SetForeignItem":        {"A foreign item of a set is not ours.", `{"f:a":{"v:\"x\"":{}}}`, `"a":["x"]`, `"a":["y","x"]`, true},
		"SetItemGone":           {"An item of a set that is gone is a change.", `{"f:a":{"v:\"x\"":{}}}`, `"a":["x","y"]`, `"a":["y"]`, false},
		"SetOfNumbers":          {"Items of sets are compared as numbers.", `{"f:a":{"v:1":{}}}`, `"a":[1]`, `"a":[2,1.0]`, true},
		"SetOfNumbersGone":      {"1 is not the text 1.", `{"f:a":{"v:1":{}}}`, `"a":[1]`, `"a":["1"]`, false},
		"SetOfMaps":             {"An item of a set may be a map.", `{"f:a":{"v:{\"x\":1}":{}}}`, `"a":[{"x":1}]`, `"a":[0,{"x":1}]`, true},
		"Index":                 {"An item by its index counts where it stands.", `{"f:a":{"i:1":{}}}`, `"a":[1,2]`, `"a":[2,1]`, false},
		"IndexOthers":           {"Other items do not count.", `{"f:a":{"i:1":{}}}`, `"a":[1,2]`, `"a":[3,2]`, true},
		"IndexOutOfRange":       {"An item that is gone is a change.", `{"f:a":{"i:1":{}}}`, `"a":[1,2]`, `"a":[1]`, false},
		"KeyThatIsMissing":      {"A key that an item leaves out is null.", `{"f:a":{"k:{\"n\":null}":{"f:x":{}}}}`, `"a":[{"x":1}]`, `"a":[{"n":null,"x":1}]`, true},
		"LongListOrder":         {"A list that is indexed is one of the same items.", partsFields(99), parts(99, 0, constant), parts(99, 50, constant), true},
		"LongListChanged":       {"Each item of a list that is indexed counts.", partsFields(99), parts(99, 0, constant), parts(99, 0, func(i int) int { return i / 98 }), false},
		"Null":                  {"Null is a value; a field that is missing has none.", `{"f:a":{"f:x":{}}}`, `"a":{"x":null}`, `"a":{}`, false},
		"EmptyMapAndList":       {"An empty map is not an empty list.", `{"f:a":{}}`, `"a":{}`, `"a":[]`, false},
		"NumberWithPoint":       {"1 and 1.0 are the same number.", `{"f:a":{}}`, `"a":1`, `"a":1.0`, true},
		"NumberWithExponent":    {"So are these.", `{"f:a":{}}`, `"a":1000000000000000000`, `"a":1e18`, true},
		"NegativeExponent":      {"And these.", `{"f:a":{}}`, `"a":-1000000000000000000`, `"a":-1e18`, true},
		"LargeNumbers":          {"These are the same as float64, and not as numbers.", `{"f:a":{}}`, `"a":9007199254740993`, `"a":9007199254740992`, false},
		"LargestInteger":        {"2^63 is one more than the largest integer.", `{"f:a":{}}`, `"a":9223372036854775807`, `"a":9223372036854775808`, false},
		"SmallestInteger":       {"-2^63 is an integer.", `{"f:a":{}}`, `"a":-9223372036854775808`, `"a":-9223372036854775808.0`, true},
		"BeyondSmallest":        {"2^63 as float64 is no integer, and is not -2^63.", `{"f:a":{}}`, `"a":-9223372036854775808`, `"a":9223372036854775808.0`, false},
		"ItemWithoutKeys":       {"Server-side apply cannot read a list with an item that has none of several keys.", partsFields(2), parts(2, 0, constant), strings.Replace(parts(2, 0, constant), "[", `[{"size":1},`, 1), false},
		"ItemWithOneKey":        {"Another key may have a default.", partsFields(2), parts(2, 0, constant), strings.Replace(parts(2, 0, constant), "]", `,{"name":"part","size":1}]`, 1), true},
		"Fraction":              {"Fractions count.", `{"f:a":{}}`, `"a":0.5`, `"a":0.25`, false},
		"NumberAndText":         {"1 is not the text 1.", `{"f:a":{}}`, `"a":1`, `"a":"1"`, false},
		"Boolean":               {"Booleans count.", `{"f:a":{}}`, `"a":true`, `"a":false`, false},
		"Quantity":              {"A quantity is text: the server has written it in one form, and another form is an edit.", `{"f:a":{}}`, `"a":"1000m"`, `"a":"1"`, false},
		"Defaulted":             {"What the server defaults is not owned.", `{"f:a":{"f:x":{}}}`, `"a":{"x":1}`, `"a":{"x":1,"protocol":"TCP"},"status":{}`, true},
		"Pruned":                {"What the server pruned is owned and absent, as long as it is.", `{"f:a":{"f:x":{},"f:gone":{}}}`, `"a":{"x":1}`, `"a":{"x":1,"y":1}`, true},
		"PreserveUnknownFields": {"What no schema knows is granular in its maps.", `{"f:a":{"f:any":{"f:deep":{"f:x":{}}}}}`, `"a":{"any":{"deep":{"x":1}}}`, `"a":{"any":{"deep":{"x":1,"y":[]}}}`, true},
		"PreserveUnknownLists":  {"And atomic in its lists.", `{"f:a":{"f:any":{}}}`, `"a":{"any":[{"x":1}]}`, `"a":{"any":[{"x":1,"y":2}]}`, false},
		"UnknownElement":        {"A path element of the future has no value that we could find.", `{"f:a":{"i:0":{},"x:1":{}}}`, `"a":[1,2]`, `"a":[1,3]`, true},
		"MiBChanged":            {"A value of 1 MiB counts to its last byte.", `{"f:a":{}}`, `"a":"` + strings.Repeat("x", 1<<20) + `y"`, `"a":"` + strings.Repeat("x", 1<<20) + `z"`, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before, recorded := Of(widget(t, tc.before, ours(tc.fields)), manager)
			require.True(t, recorded)
			after, _ := Of(widget(t, tc.after, ours(tc.fields)), manager)
			require.Equal(t, tc.same, before == after, tc.reason)
			if name == "ItemWithoutKeys" {
				return // the digest alone has it: no owned field differs
			}
			require.Equal(t, tc.same, Drift(widget(t, tc.after, ours(tc.fields)), widget(t, tc.before, ours(tc.fields)), manager, shown) == nil,
				"drift and digest agree: %s", tc.reason)
		})
	}
}

func TestDigestDoesNotDependOnTheAPIVersion(t *testing.T) {
	const fields, content = `{"f:spec":{"f:size":{}}}`, `"spec":{"size":1}`
	want, _ := Of(widget(t, content, ours(fields)), manager)

	read := widget(t, content, ours(fields))
	read.SetAPIVersion("example.com/v1beta1")
	got, recorded := Of(read, manager)
	require.True(t, recorded)
	require.Equal(t, want, got, "the version through which the object was read")

	got, recorded = Of(widget(t, content, strings.ReplaceAll(ours(fields), "example.com/v1", "example.com/v1beta1")), manager)
	require.True(t, recorded)
	require.Equal(t, want, got, "the version through which it was applied")
}

func TestDigestOfTwoEntriesIsThatOfTheirUnion(t *testing.T) {
	const content = `"spec":{"size":1,"color":"red","tags":["a"]}`
	old := strings.ReplaceAll(ours(`{"f:spec":{".":{},"f:size":{},"f:tags":{"v:\"a\"":{}}}}`), "example.com/v1", "example.com/v1beta1")
	two := widget(t, content, old, ours(`{"f:spec":{"f:size":{},"f:color":{}}}`))
	one := widget(t, content, ours(`{"f:spec":{".":{},"f:color":{},"f:size":{},"f:tags":{"v:\"a\"":{}}}}`))
	want, _ := Of(one, manager)
	got, recorded := Of(two, manager)
	require.True(t, recorded)
	require.Equal(t, want, got)
	require.Equal(t, []string{manager}, Managers(two, "vidra/"), "one manager, however many entries")
	require.Empty(t, Drift(two, one, manager, shown))
}

// TestFallBack shows which objects have no recorded ownership: any change of
// their generation, or without one of their resourceVersion, may be a drift.
func TestFallBack(t *testing.T) {
	const fields, content = `{"f:spec":{"f:size":{}}}`, `"spec":{"size":1}`
	cases := map[string]struct {
		reason string
		object *unstructured.Unstructured
	}{
		"Cleared":          {"Somebody cleared managedFields.", widget(t, content)},
		"ClearedByNull":    {"They may be null, too.", object(t, `{"kind":"Widget","metadata":{"managedFields":null}}`)},
		"AggregatedAPI":    {"An API server without server-side apply has none.", object(t, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"}}`)},
		"OthersOnly":       {"Others own it.", widget(t, content, theirs("kubectl", fields))},
		"BeforeFirstApply": {"The API server stands in for whoever wrote before the first apply.", widget(t, content, theirs("before-first-apply", fields))},
		"UpdatedByUs":      {"An older version wrote without server-side apply, and we have not applied yet.", widget(t, content, theirs(manager, fields))},
		"Renamed":          {"An older version applied under another name.", widget(t, content, managed("vidra", "Apply", "", fields))},
		"StatusOnly":       {"What we apply to a subresource is not the object.", widget(t, content, strings.Replace(ours(fields), `"manager"`, `"subresource":"status","manager"`, 1))},
		"NoFields":         {"An entry without fields says nothing.", widget(t, content, strings.Replace(ours(fields), "fieldsV1", "fieldsV2", 1))},
		"Malformed":        {"No API server writes this.", widget(t, content, `1`, `null`, `[]`, `{"manager":1,"operation":[]}`, ours(`[]`), ours(`"x"`))},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			digest := func(generation int64, version string) Digest {
				u := tc.object.DeepCopy()
				u.SetGeneration(generation)
				u.SetResourceVersion(version)
				d, recorded := Of(u, manager)
				require.False(t, recorded, tc.reason)
				return d
			}
			require.Equal(t, digest(1, "10"), digest(1, "11"))
			require.NotEqual(t, digest(1, "10"), digest(2, "10"))
			require.NotEqual(t, digest(0, "10"), digest(0, "11"))
			require.Empty(t, Drift(tc.object, tc.object, manager, shown), "without ownership nothing is known to have drifted")
		})
	}
}

// TestEntriesBesideOurs shows that ours is found among those that upgrades and
// first applies leave behind, and is not mistaken for them.
func TestEntriesBesideOurs(t *testing.T) {
	const fields, content = `{"f:spec":{"f:size":{}}}`, `"spec":{"size":1,"color":"red"}`
	want, _ := Of(widget(t, content, ours(fields)), manager)
	cases := map[string]string{
		"UpdateEntryOfAnOlderVersion": theirs(manager, `{"f:spec":{"f:color":{}}}`),
		"BeforeFirstApply":            theirs("before-first-apply", `{"f:spec":{"f:color":{}}}`),
		"ApplyOfTheStatus":            strings.Replace(ours(`{"f:spec":{"f:color":{}}}`), `"manager"`, `"subresource":"status","manager"`, 1),
	}
	for name, other := range cases {
		t.Run(name, func(t *testing.T) {
			got, recorded := Of(widget(t, content, other, ours(fields)), manager)
			require.True(t, recorded)
			require.Equal(t, want, got)
		})
	}
}

// TestDigestKeepsItsMemorySmall shows that a digest copies no value, however
// large the object is.
func TestDigestKeepsItsMemorySmall(t *testing.T) {
	for name, u := range benchmarked(t) {
		if name == "CustomResourceLarge" {
			continue // its list is indexed
		}
		const runs = 10
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range runs {
			Of(u, manager)
		}
		runtime.ReadMemStats(&after)
		require.Less(t, (after.TotalAlloc-before.TotalAlloc)/runs, uint64(1<<16), name)
	}
}

// TestDigestIsTheSameEverywhere decodes an object anew, so that its maps have
// another order, as they have in another process.
func TestDigestIsTheSameEverywhere(t *testing.T) {
	for name, u := range benchmarked(t) {
		text, err := json.Marshal(u.Object)
		require.NoError(t, err)
		want, _ := Of(u, manager)
		for range 3 {
			got, recorded := Of(object(t, string(text)), manager)
			require.True(t, recorded)
			require.Equal(t, want, got, name)
		}
	}
}

// TestDigestOfNothing: an entry without fields records that nothing is owned.
func TestDigestOfNothing(t *testing.T) {
	t.Parallel()
	first, recorded := Of(widget(t, `"a":1`, ours(`{}`)), manager)
	require.True(t, recorded)
	second, _ := Of(widget(t, `"a":2`, ours(`{}`)), manager)
	require.Equal(t, first, second)
}
