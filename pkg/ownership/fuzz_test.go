package ownership

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// seeds are a content of an object, another, and what is owned in them.
var seeds = [][3]string{
	{`{"a":1}`, `{"a":1.0}`, `{"f:a":{}}`},
	{`{"a":1e18}`, `{"a":1000000000000000000}`, `{"f:a":{}}`},
	{`{"a":9007199254740993}`, `{"a":9007199254740992}`, `{"f:a":{}}`},
	{`{"a":{"x":null}}`, `{"a":{}}`, `{"f:a":{"f:x":{}}}`},
	{`{"a":{"x":1}}`, `{"a":{"y":2,"x":1}}`, `{"f:a":{".":{},"f:x":{}}}`},
	{`{"a":[1,{"b":null}]}`, `{"a":[2,{"b":null}]}`, `{"f:a":{"i:1":{"f:b":{}},"v:1":{}}}`},
	{`{"a":["x","y"]}`, `{"a":["y","x"]}`, `{"f:a":{"v:\"x\"":{}}}`},
	{`{"a":[{"n":"x","p":1,"v":2}]}`, `{"a":[{"n":"y"},{"n":"x","p":1.0,"v":2}]}`, `{"f:a":{"k:{\"n\":\"x\",\"p\":1}":{".":{},"f:v":{}}}}`},
	{`{"a":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}`, `{"a":[16,15,14,13,12,11,10,9,8,7,6,5,4,3,2,1]}`, `{"f:a":{"v:0":{},"v:16":{},"v:{}":{}}}`},
	{`{"a":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,{"":"x"},{}]}`, `{"a":[{"":"x"},0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]}`, `{"f:a":{"k:{\"\":\"x\"}":{},"k:{}":{},"k:{\"n\":\"x\"}":{}}}`},
	{`{"a":{"b":1e300}}`, `{"a":{"b":-0.0}}`, `{"f:a":{"k:{\"x\":1}":{}}}`},
	{`{"data":{"password":"x"},"kind":"Secret","apiVersion":"v1"}`, `{"data":{}}`, `{"f:data":{"f:password":{}}}`},
}

// FuzzDigest holds the law: digests are equal if and only if the same paths are
// owned, and have equal values. The oracle is made of fieldpath.Set and
// value.Equals, which the digest does not use.
func FuzzDigest(f *testing.F) {
	for _, seed := range seeds {
		f.Add(seed[0], seed[1], seed[2], seed[2])
		f.Add(seed[0], seed[1], seed[2], `{"f:other":{}}`)
		f.Add(seed[0], seed[0], seed[2], seed[2])
	}
	f.Add(`{}`, `{}`, `{"f:absent":{"v:0":{}}}`, `{"f:absent":{}}`)
	f.Fuzz(func(t *testing.T, contentA, contentB, fieldsA, fieldsB string) {
		setA, treeA, okA := canonical(fieldsA)
		setB, treeB, okB := canonical(fieldsB)
		a, b := decode(contentA), decode(contentB)
		if !okA || !okB || a == nil || b == nil {
			return // no API server has these
		}
		requireLaw(t, a, b, setA, setB, treeA, treeB)
		if set, tree, ok := canonical(allOf(a)); ok {
			requireLaw(t, a, b, set, set, tree, tree)
		}
	})
}

// requireLaw requires the law of objects with what is owned in them.
func requireLaw(t *testing.T, a, b *unstructured.Unstructured, setA, setB *fieldpath.Set, treeA, treeB map[string]any) {
	t.Helper()
	setManaged(a, entryOf(treeA))
	setManaged(b, entryOf(treeB))
	digestA, recorded := Of(a, manager)
	require.True(t, recorded)
	again, _ := Of(a.DeepCopy(), manager)
	require.Equal(t, digestA, again, "a copy has the same digest")
	digestB, _ := Of(b, manager)
	equal := setA.Equals(setB) && equalAt(setA, value.NewValueInterface(a.Object), value.NewValueInterface(b.Object))
	if digestA == digestB {
		require.True(t, equal, "equal digests of what differs")
	} else if !lossy(a.Object) && !lossy(b.Object) {
		require.False(t, equal, "different digests of what is equal")
	}
}

// allOf is the text of a set of all fields of an object.
func allOf(u *unstructured.Unstructured) string {
	text, err := fieldpath.SetFromValue(value.NewValueInterface(u.Object)).ToJSON()
	if err != nil {
		return ""
	}
	return string(text)
}

// FuzzDrift holds the law: there is no drift if and only if the digests are
// equal. Others may own anything, in whatever form.
func FuzzDrift(f *testing.F) {
	for _, seed := range seeds {
		f.Add(seed[0], seed[1], seed[2], `[{"manager":"x","operation":"Update","time":"2026-01-02T03:04:05Z","fieldsV1":`+seed[2]+`}]`)
		f.Add(seed[0], seed[1], "", `[]`)
		f.Add(seed[0], seed[1], seed[2], `[1,null,{"manager":2},{"manager":"vidra/x","fieldsV1":{"f:a":1,"k:":{},"v":null,"x:1":{}}}]`)
	}
	f.Fuzz(func(t *testing.T, contentA, contentB, fields, managedFields string) {
		restored, found := decode(contentA), decode(contentB)
		if restored != nil && fields == "" {
			fields = allOf(restored)
		}
		set, tree, ok := canonical(fields)
		if !ok || restored == nil || found == nil {
			return // no API server has these
		}
		var others []any
		if foreign := decode(`{"list":` + managedFields + `}`); foreign != nil {
			others, _ = foreign.Object["list"].([]any)
		}
		setManaged(restored, entryOf(tree))
		setManaged(found, append(others, entryOf(tree))...)
		changes := Drift(found, restored, manager, shown)
		for _, change := range changes {
			require.Equal(t, bool(SensitivityOf(found, restored)), change.Withheld)
			if change.Withheld {
				require.Empty(t, change.Found+change.Restored)
			}
		}
		was, _ := Of(restored, manager)
		is, _ := Of(found, manager)
		if was == is {
			require.Empty(t, changes, "drift of equal digests")
		} else if complete(set, value.NewValueInterface(restored.Object)) && len(others) == 0 {
			require.NotEmpty(t, changes, "no drift of different digests")
		}
		require.Empty(t, Drift(found, found.DeepCopy(), manager, shown), "nothing drifts from itself")
	})
}

// FuzzMalformed reads managedFields that no API server writes: nothing panics,
// and what is said of an object is said of its copy.
func FuzzMalformed(f *testing.F) {
	for _, seed := range seeds {
		f.Add(seed[0], `[{"manager":"vidra/web","operation":"Apply","fieldsV1":`+seed[2]+`}]`)
	}
	f.Add(`{"a":[1]}`, `[{"manager":"vidra/web","operation":"Apply","fieldsV1":{"f:a":{"k:":{},"v":{},"v:":{},"i:x":null,"i:-1":1,"":{},".":1,"x:1":{}}}}]`)
	f.Add(`{"a":[1]}`, `[{"manager":"vidra/web","operation":"Apply","fieldsV1":{"f:a":{}}},{"manager":"vidra/web","operation":"Apply","fieldsV1":{"f:a":1}}]`)
	f.Fuzz(func(t *testing.T, content, managedFields string) {
		u, foreign := decode(content), decode(`{"list":`+managedFields+`}`)
		if u == nil || foreign == nil {
			return // not JSON
		}
		u.Object["metadata"] = map[string]any{"managedFields": foreign.Object["list"]}
		digest, recorded := Of(u, manager)
		again, alike := Of(u.DeepCopy(), manager)
		require.Equal(t, digest, again)
		require.Equal(t, recorded, alike)
		bare := &unstructured.Unstructured{Object: map[string]any{}}
		Drift(bare, u, manager, shown)
		Drift(u, bare, manager, shown)
		Managers(u, "")
		require.Empty(t, Drift(u, u.DeepCopy(), manager, shown), "nothing drifts from itself")
	})
}

// decode reads an object of any content; nil if it is not one.
func decode(text string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	if u.UnmarshalJSON([]byte(`{"kind":"Any","content":`+text+`}`)) != nil {
		return nil
	}
	content, ok := u.Object["content"].(map[string]any)
	if !ok {
		return nil
	}
	return &unstructured.Unstructured{Object: content}
}

// canonical is a set as an API server writes it. Number elements that are -0 are
// left out: there, two texts are one element.
func canonical(text string) (*fieldpath.Set, map[string]any, bool) {
	set, again := fieldpath.NewSet(), fieldpath.NewSet()
	if set.FromJSON(strings.NewReader(text)) != nil {
		return nil, nil, false
	}
	written, err := set.ToJSON()
	if err != nil || bytes.Contains(written, []byte("-0")) || again.FromJSON(bytes.NewReader(written)) != nil || !set.Equals(again) {
		return nil, nil, false
	}
	var tree map[string]any
	if json.Unmarshal(written, &tree) != nil || tree == nil {
		return nil, nil, false
	}
	return set, tree, true
}

func entryOf(tree map[string]any) any {
	return map[string]any{"manager": manager, "operation": "Apply", "fieldsV1": tree}
}

func setManaged(u *unstructured.Unstructured, entries ...any) {
	u.Object["metadata"] = map[string]any{"managedFields": entries}
}

// equalAt says whether a and b have the same nodes along the paths of set, and
// equal values at its leaves.
func equalAt(set *fieldpath.Set, a, b value.Value) bool {
	equal := true
	visit := func(element fieldpath.PathElement) {
		childA, childB := at(a, element), at(b, element)
		below, nested := set.Children.Get(element)
		switch {
		case childA == nil || childB == nil:
			equal = equal && childA == nil && childB == nil
		case nested:
			equal = equal && equalAt(below, childA, childB)
		default:
			equal = equal && value.Equals(childA, childB)
		}
	}
	set.Members.Iterate(visit)
	set.Children.Iterate(visit)
	return equal
}

// complete says whether v has a value at each path of set.
func complete(set *fieldpath.Set, v value.Value) bool {
	all := true
	set.Members.Iterate(func(element fieldpath.PathElement) { all = all && at(v, element) != nil })
	set.Children.Iterate(func(element fieldpath.PathElement) {
		child := at(v, element)
		below, _ := set.Children.Get(element)
		all = all && child != nil && complete(below, child)
	})
	return all
}

// at is what element selects in v; nil if there is nothing.
func at(v value.Value, element fieldpath.PathElement) value.Value {
	if element.FieldName != nil {
		if !v.IsMap() {
			return nil
		}
		child, _ := v.AsMap().Get(*element.FieldName)
		return child
	}
	if !v.IsList() {
		return nil
	}
	list := v.AsList()
	for i := range list.Length() {
		item := list.At(i)
		switch {
		case element.Index != nil && *element.Index == i,
			element.Value != nil && value.Equals(item, *element.Value),
			element.Key != nil && item.IsMap() && hasKeys(item.AsMap(), *element.Key):
			return item
		}
	}
	return nil
}

func hasKeys(item value.Map, keys value.FieldList) bool {
	for _, key := range keys {
		got, found := item.Get(key.Name)
		if !found {
			got = value.NewValueInterface(nil)
		}
		if !value.Equals(got, key.Value) {
			return false
		}
	}
	return true
}

// lossy says whether v holds an integer that value.Equals, which compares it with
// other numbers as float64, may find equal to another one.
func lossy(v any) bool {
	switch v := v.(type) {
	case int64:
		return math.Abs(float64(v)) >= 1<<53
	case []any:
		for _, item := range v {
			if lossy(item) {
				return true
			}
		}
	case map[string]any:
		for _, item := range v {
			if lossy(item) {
				return true
			}
		}
	}
	return false
}
