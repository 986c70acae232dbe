package ownership

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// TestIndexFindsWhatAScanFinds looks for items in a list that is short, and in the
// same list after it was made long enough for an index: one that is made for the
// keys at hand, and one that was made for others.
func TestIndexFindsWhatAScanFinds(t *testing.T) {
	list := decode(`{"list":["s","s",1,true,null,[1],{"m":1},{"":"x","v":1},{"n":"a","p":2,"v":2},{"n":"a","p":1,"v":3},
	  {"n":"a","p":1.0,"v":4},{"n":"a\"b"},{"n":9007199254740993},{"n":null,"p":1},{"n":{"deep":1}},{"\\":"x","n":"\\c"}]}`).Object["list"].([]any)
	require.LessOrEqual(t, len(list), scanned)
	long := slices.Clone(list)
	for len(long) <= scanned {
		long = append(long, map[string]any{"filler": true})
	}
	shared := node{live: long}
	cases := map[string]struct {
		reason string
		want   int
	}{
		`k:{"n":"a","p":1}`:                 {"The first of equal items counts.", 9},
		`k:{"n":"a"}`:                       {"Other keys do not.", 8},
		`k:{"p":1,"n":"a"}`:                 {"Keys have no order.", 9},
		`k:{"n":"a\"b"}`:                    {"Keys may be escaped.", 11},
		`k:{"n":"\\c"}`:                     {"A backslash may be the first of a value.", 15},
		`k:{"\\":"x"}`:                      {"Or of a name.", 15},
		`k:{"n":9007199254740993}`:          {"Large numbers are found.", 12},
		`k:{"n":null,"p":1}`:                {"A key may be null.", 13},
		`k:{"n":null}`:                      {"A missing key is null.", 6},
		`k:{"n":""}`:                        {"A server leaves out a key that is empty.", 6},
		`k:{"n":"","p":1}`:                  {"Or writes null.", 13},
		`k:{"n":"","p":2}`:                  {"The other keys count all the same.", -1},
		`k:{"n":"a","p":0}`:                 {"No zero is another number.", -1},
		`k:{"n":false}`:                     {"A key may be a boolean.", 6},
		`k:{"n":{"deep":1}}`:                {"A key may be no scalar.", 14},
		`k:{"":"x"}`:                        {"A key may have no name.", 7},
		`k:{}`:                              {"Without keys, any map will do.", 6},
		`k:{"n":"b"}`:                       {"Not every item is there.", -1},
		`k:{"a":1,"b":1,"c":1,"d":1,"e":1}`: {"More than four keys have a digest.", -1},
		`k:{"":"x","a":0,"b":"","c":false,"v":1}`: {"As any number of keys, they may be absent if they are empty.", 7},
		`v:"s"`:     {"The first of equal items counts in sets, too.", 0},
		`v:1.0`:     {"Numbers are equal however they are written.", 2},
		`v:true`:    {"An item may be a boolean.", 3},
		`v:null`:    {"Or null.", 4},
		`v:[1]`:     {"Or a list.", 5},
		`v:{"m":1}`: {"Or a map.", 6},
		`v:"t"`:     {"Not every item is there.", -1},
		`i:2`:       {"An index counts from 0.", 2},
		`i:-1`:      {"And not backwards.", -1},
		`i:99`:      {"Nor beyond the end.", -1},
		`x:1`:       {"Nothing is known of other elements.", -1},
	}
	for key, tc := range cases {
		t.Run(key, func(t *testing.T) {
			for _, n := range []*node{{live: list}, {live: long}, &shared} {
				got, found := n.find(key)
				require.Equal(t, tc.want >= 0, found, tc.reason)
				if found {
					require.Equal(t, list[tc.want], got, tc.reason)
				}
			}
		})
	}
}

// FuzzItems has the index of a list find what a scan of the list finds, for elements that select items and for elements that may select items
// without some keys.
func FuzzItems(f *testing.F) {
	for _, key := range []string{
		`k:{"n":"a","p":1}`, `k:{"n":"a"}`, `k:{"n":""}`, `k:{"n":{"deep":9007199254740993}}`, `k:{}`, `k:{"n":1,"n":2}`, `k:{"a":1,"b":1,"c":1,"d":1,"e":1}`,
		`v:"s"`, `v:1.0`, `v:{"m":9007199254740993}`, `v:null`, `i:1`, `f:n`,
	} {
		f.Add(`["s",1,true,null,[1],{"m":9007199254740993},{"n":"a","p":2},{"n":"a","p":1.0},{"n":"a"},{"p":1},{"n":null},{"n":{"deep":9007199254740993}},{}]`, key)
		f.Add(`[{"a":1,"b":1,"c":1,"d":1},{"a":1,"e":1},{"a":1,"b":1,"c":1,"d":1,"e":1},{"a":1,"e":1},{"a":1,"e":0}]`, key)
	}
	f.Fuzz(func(t *testing.T, content, key string) {
		element, err := fieldpath.DeserializePathElement(key)
		u := decode(`{"list":` + content + `}`)
		if err != nil || u == nil || element.Index != nil || element.Key != nil && len(*element.Key) > maxNames {
			return
		}
		list, _ := u.Object["list"].([]any)
		for len(list) <= scanned {
			list = append(list, nil)
		}
		n := node{live: list}
		i, found := n.place(list, element)
		scan := slices.IndexFunc(list, func(item any) bool { return selects(element, item) })
		require.Equal(t, scan >= 0, found)
		require.True(t, !found || scan == i, "%d instead of %d", i, scan)

		similar, scanned, shapes := newFirsts(), map[int]fieldpath.PathElement{}, map[string]bool{}
		count := 0
		for _, g := range n.maySelect(list, element) {
			count += g.count()
			similar.addAll(g, element)
		}
		for i, item := range list {
			m, _ := item.(map[string]any)
			shape, same := "", hasKeyOf(item, element)
			for at, field := range *cmp.Or(element.Key, &value.FieldList{}) {
				got, has := m[field.Name]
				same = same && (!has || sameKey(got, field.Value))
				if has {
					shape += fmt.Sprint(at, " ")
				}
			}
			if shapes[shape] = true; same {
				scanned[i] = element
			}
		}
		if len(shapes) <= maxShapes {
			require.Equal(t, scanned, similar.of)
			require.Len(t, scanned, count)
		}
	})
}
