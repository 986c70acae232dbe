package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// sort is the sort of a generated field.
type sort int

const (
	textSort sort = iota
	integerSort
	numberSort
	booleanSort
	intOrStringSort
	unknownSort
	embeddedSort
	atomicListSort
	setSort
	mapSort
	atomicMapSort
	atomicObjectSort
	// objectSort and listSort, of items with keys, have fields of their own.
	objectSort
	listSort
)

// editRarity and manifestRarity are the rarity of absent fields: edits lack half of them, manifests a quarter.
const editRarity, manifestRarity = 2, 4

// shape is a generated schema.
type shape struct {
	sort
	// fields are those of an object, or of the items of a list, and keys those of them that are its keys.
	fields map[string]*shape
	keys   []string
	// held is the schema of the values of a map, and of the items of a list without keys.
	held     *shape
	nullable bool
	// fallback is the default of the field; nil if it has none.
	fallback any
}

var (
	// words are the texts in generated objects, and names the keys of their maps.
	words = []any{"", "a", "b", "text", "1", "1.0", "null", "grün", "a/b", "~0", `"quoted"`, "line\nbreak"}
	names = []string{"a", "b", "c", "1", "a/b", "~1", `"q"`, "grün", "f:a", "k8s.io/name", ".", " ", "[0]", "v:1"}
	// numbers are notations of numbers, some of which are equal.
	numbers = []any{json.Number("0"), json.Number("1"), json.Number("1.0"), json.Number("10e-1"), json.Number("0.5"), json.Number("-3"), json.Number("1e3"), json.Number("1000")}
)

// randomShape generates the schema of an object with fields of all sorts.
func randomShape(random *rand.Rand, depth int) *shape {
	s := &shape{sort: objectSort, fields: map[string]*shape{}}
	for i := range 2 + random.IntN(4) {
		name := fmt.Sprintf("field%d", i)
		if random.IntN(8) == 0 {
			name = names[random.IntN(len(names)-2)] // apart from two that look like the syntax of paths
		}
		s.fields[name] = randomField(random, depth)
	}
	return s
}

// randomField generates the schema of a field.
func randomField(random *rand.Rand, depth int) *shape {
	sorts := int(listSort) + 1
	if depth == 0 {
		sorts = int(atomicMapSort) + 1
	} else if random.IntN(3) == 0 {
		sorts = 0
	}
	s := &shape{}
	if sorts == 0 {
		s.sort = []sort{objectSort, listSort}[random.IntN(2)]
	} else {
		s.sort = sort(random.IntN(sorts))
	}
	switch s.sort {
	case objectSort, atomicObjectSort:
		s.fields = randomShape(random, max(0, depth-1)).fields
	case listSort:
		s.fields = randomShape(random, depth-1).fields
		s.keys = []string{"name", "port"}[:1+random.IntN(2)]
		s.fields["name"] = &shape{sort: textSort}
		if len(s.keys) == 2 {
			s.fields["port"] = &shape{sort: integerSort}
		}
		if random.IntN(2) == 0 {
			s.keys = append(s.keys, "protocol")
			s.fields["protocol"] = &shape{sort: textSort, fallback: "TCP"}
		}
		if random.IntN(3) == 0 {
			s.keys = s.keys[1:]
			if len(s.keys) == 0 {
				s.keys = []string{"port"}
				s.fields["port"] = &shape{sort: integerSort, fallback: 1}
			}
		}
	case mapSort, atomicMapSort:
		s.held = randomField(random, min(1, max(0, depth-1)))
	case atomicListSort:
		s.held = &shape{sort: []sort{textSort, integerSort, unknownSort}[random.IntN(3)]}
	case setSort:
		s.held = &shape{sort: []sort{textSort, integerSort, numberSort}[random.IntN(3)]}
	case textSort, integerSort, numberSort, booleanSort, intOrStringSort, unknownSort, embeddedSort:
	}
	s.nullable = random.IntN(6) == 0
	if random.IntN(6) == 0 && s.sort <= intOrStringSort { // the default of an emptied map returns with the undo
		s.fallback = s.value(random, manifestRarity)
	}
	return s
}

// schema is the schema in a CustomResourceDefinition.
func (s *shape) schema() map[string]any {
	text := map[string]any{}
	switch s.sort {
	case textSort:
		text["type"] = "string"
	case integerSort:
		text["type"] = "integer"
	case numberSort:
		text["type"] = "number"
	case booleanSort:
		text["type"] = "boolean"
	case intOrStringSort:
		text["x-kubernetes-int-or-string"] = true
	case unknownSort:
		text["x-kubernetes-preserve-unknown-fields"] = true
	case embeddedSort:
		text["type"], text["x-kubernetes-embedded-resource"], text["x-kubernetes-preserve-unknown-fields"] = "object", true, true
	case atomicListSort, setSort:
		text["type"], text["items"] = "array", s.held.schema()
		text["x-kubernetes-list-type"] = map[sort]string{atomicListSort: "atomic", setSort: "set"}[s.sort]
	case mapSort, atomicMapSort:
		text["type"], text["additionalProperties"] = "object", s.held.schema()
		if s.sort == atomicMapSort {
			text["x-kubernetes-map-type"] = "atomic"
		}
	case objectSort, atomicObjectSort:
		text["type"], text["properties"] = "object", schemas(s.fields)
		if s.sort == atomicObjectSort {
			text["x-kubernetes-map-type"] = "atomic"
		}
	case listSort:
		item := map[string]any{"type": "object", "properties": schemas(s.fields)}
		var required []string
		for _, key := range s.keys {
			if s.fields[key].fallback == nil {
				required = append(required, key)
			}
		}
		if required != nil {
			item["required"] = required
		}
		text["type"], text["items"], text["x-kubernetes-list-type"], text["x-kubernetes-list-map-keys"] = "array", item, "map", s.keys
	}
	if s.nullable {
		text["nullable"] = true
	}
	if s.fallback != nil {
		text["default"] = s.fallback
	}
	return text
}

func schemas(fields map[string]*shape) map[string]any {
	all := map[string]any{}
	for name, field := range fields {
		all[name] = field.schema()
	}
	return all
}

// value is a random value of the schema. An object lacks one field of rarity.
func (s *shape) value(random *rand.Rand, rarity int) any {
	if s.nullable && rarity == editRarity && random.IntN(5) == 0 {
		return nil // in an edit alone: the removal of null from a manifest is no structural edit
	}
	switch s.sort {
	case textSort:
		return pick(random, words...)
	case integerSort:
		return json.Number(fmt.Sprint(random.IntN(4)))
	case numberSort:
		return pick(random, numbers...)
	case booleanSort:
		return random.IntN(2) == 0
	case intOrStringSort:
		return pick[any](random, json.Number("1"), json.Number("2"), "1", "50%")
	case unknownSort:
		return randomUnknown(random, 3)
	case embeddedSort:
		return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": pick(random, "a", "b"), "labels": map[string]any{"app": pick(random, words[1:4]...)}}, "data": randomUnknown(random, 2)}
	case atomicListSort, setSort:
		list := []any{}
		for range s.size(random) {
			list = append(list, s.held.value(random, rarity))
		}
		if s.sort == setSort {
			list = slices.CompactFunc(sortedBy(list, canonical), func(a, b any) bool { return canonical(a) == canonical(b) })
		}
		return list
	case mapSort, atomicMapSort:
		m := map[string]any{}
		for range random.IntN(4) {
			m[pick(random, names...)] = s.held.value(random, rarity)
		}
		return m
	case objectSort, atomicObjectSort:
		return s.object(random, rarity)
	case listSort:
		list := []any{}
		for range s.size(random) {
			list = append(list, s.item(random, rarity))
		}
		return s.unique(list)
	}
	return nil
}

// size is the length of a new list. A set or list with keys has an item: managedFields have no path for an empty one, and an
// apply of the map above it, which the manifest has empty, removes both.
func (s *shape) size(random *rand.Rand) int {
	if s.sort == atomicListSort {
		return random.IntN(4)
	}
	return 1 + random.IntN(3)
}

// object is an object with random fields.
func (s *shape) object(random *rand.Rand, rarity int) map[string]any {
	m := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(s.fields)) {
		if random.IntN(rarity) > 0 {
			m[name] = s.fields[name].value(random, rarity)
		}
	}
	return m
}

// item is a random item of a list with keys. It lacks some keys with defaults in edits.
func (s *shape) item(random *rand.Rand, rarity int) map[string]any {
	item := s.object(random, rarity)
	for _, key := range s.keys {
		field := s.fields[key]
		if item[key] == nil {
			delete(item, key)
		}
		if _, there := item[key]; !there && (field.fallback == nil || rarity == manifestRarity) {
			item[key] = (&shape{sort: field.sort}).value(random, rarity)
		}
	}
	return item
}

// unique is a list without the items that have the keys of an earlier one.
func (s *shape) unique(list []any) []any {
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(item any) bool {
		fields, _ := item.(map[string]any)
		key := ""
		for _, name := range s.keys {
			v := fields[name]
			if v == nil {
				v = s.fields[name].fallback
			}
			key += canonical(v) + " "
		}
		defer func() { seen[key] = true }()
		return seen[key]
	})
}

// randomUnknown is a value without a schema.
func randomUnknown(random *rand.Rand, depth int) any {
	n := random.IntN(6)
	switch {
	case depth > 2 || depth > 0 && n < 3:
		m := map[string]any{}
		for range random.IntN(4) {
			m[pick(random, names...)] = randomUnknown(random, depth-1)
		}
		return m
	case depth > 0 && n == 3:
		list := []any{}
		for range random.IntN(3) {
			list = append(list, randomUnknown(random, depth-1))
		}
		return list
	case n == 4:
		return pick(random, numbers...)
	}
	return pick(random, words...)
}

// canonical is a value as JSON, with one notation of numbers.
func canonical(v any) string {
	return encodedText(asDecoded(v))
}

// asDecoded is a value as it is in an unstructured object.
func asDecoded(v any) any {
	var out any
	if err := utiljson.Unmarshal([]byte(encodedText(v)), &out); err != nil {
		panic(err)
	}
	return out
}

func sortedBy(list []any, key func(any) string) []any {
	slices.SortFunc(list, func(a, b any) int { return strings.Compare(key(a), key(b)) })
	return list
}

// edit is a random change of a value of the schema.
func (s *shape) edit(random *rand.Rand, v any) any {
	if s.nullable && random.IntN(8) == 0 {
		return nil
	}
	if v == nil {
		return asDecoded(s.value(random, editRarity))
	}
	switch s.sort {
	case objectSort:
		fields, _ := v.(map[string]any)
		return s.editFields(random, fields)
	case mapSort:
		fields, _ := v.(map[string]any)
		return editMap(random, fields, func() string { return pick(random, names...) }, func(string) *shape { return s.held })
	case unknownSort:
		if fields, is := v.(map[string]any); is && random.IntN(4) > 0 {
			return editMap(random, fields, func() string { return pick(random, names...) }, func(string) *shape { return &shape{sort: unknownSort} })
		}
	case embeddedSort:
		fields, _ := v.(map[string]any)
		fields = maps.Clone(fields)
		fields["data"] = (&shape{sort: unknownSort}).edit(random, fields["data"])
		return fields
	case listSort:
		list, _ := v.([]any)
		return s.editItems(random, slices.Clone(list))
	case setSort:
		list, _ := v.([]any)
		list = slices.Clone(list)
		if len(list) > 0 && random.IntN(3) > 0 {
			i := random.IntN(len(list))
			list = slices.Delete(list, i, i+1)
		}
		if random.IntN(3) > 0 {
			if added := asDecoded(s.held.value(random, editRarity)); !slices.ContainsFunc(list, func(item any) bool { return canonical(item) == canonical(added) }) {
				list = append(list, added)
			}
		}
		random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		return list
	case textSort, integerSort, numberSort, booleanSort, intOrStringSort, atomicListSort, atomicMapSort, atomicObjectSort:
	}
	return asDecoded(s.value(random, editRarity))
}

func (s *shape) editFields(random *rand.Rand, fields map[string]any) map[string]any {
	all := slices.Sorted(maps.Keys(s.fields))
	return editMap(random, fields, func() string { return pick(random, all...) }, func(name string) *shape { return s.fields[name] })
}

// editMap removes, adds, renames and changes fields of a map.
func editMap(random *rand.Rand, fields map[string]any, name func() string, of func(string) *shape) map[string]any {
	fields = maps.Clone(fields)
	if fields == nil {
		fields = map[string]any{}
	}
	there := slices.Sorted(maps.Keys(fields))
	how := random.IntN(12)
	if len(there) == 0 {
		how = 0
	}
	switch {
	case how == 11:
		return map[string]any{}
	case how >= 6: // one inside of it
		at := pick(random, there...)
		if inner := of(at); inner != nil {
			fields[at] = inner.edit(random, fields[at])
		}
		return fields
	}
	if how > 1 {
		delete(fields, pick(random, there...))
	}
	if how != 2 {
		for range 1 + random.IntN(2) {
			at := name()
			if _, is := fields[at]; !is || random.IntN(4) == 0 {
				fields[at] = asDecoded(of(at).value(random, editRarity))
			}
		}
	}
	return fields
}

// editItems removes, adds, reorders and changes items of a list, and their keys.
func (s *shape) editItems(random *rand.Rand, list []any) []any {
	i := 0
	if len(list) > 0 {
		i = random.IntN(len(list))
	}
	how := random.IntN(8)
	switch {
	case len(list) == 0 || how == 0:
		list = append(list, asDecoded(s.item(random, editRarity)))
	case how == 1:
		list = slices.Delete(list, i, i+1)
	case how == 2: // replaced
		list[i] = asDecoded(s.item(random, editRarity))
	case how <= 5: // a key changed, or a copy with another key
		item, _ := list[i].(map[string]any)
		item = maps.Clone(item)
		key := pick(random, s.keys...)
		item[key] = asDecoded((&shape{sort: s.fields[key].sort}).value(random, editRarity))
		if how == 5 {
			list = append(list, item)
		} else {
			list[i] = item
		}
	default:
		item, _ := list[i].(map[string]any)
		list[i] = s.editFields(random, item)
	}
	if random.IntN(3) == 0 {
		random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	return list
}

// definitionOf is the CustomResourceDefinition of a generated schema.
func definitionOf(s *shape, name, group string) string {
	kind := strings.ToUpper(name[:1]) + name[1:]
	return encodedText(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": name + "s." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced",
			"names": map[string]any{"plural": name + "s", "singular": name, "kind": kind, "listKind": kind + "List"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{
				"type": "object", "properties": map[string]any{"spec": s.schema()},
			}}}},
		},
	})
}

// manifestOf is a manifest of the kind that definitionOf defines.
func manifestOf(random *rand.Rand, s *shape, kind, group, name string) string {
	return encodedText(map[string]any{
		"apiVersion": group + "/v1", "kind": strings.ToUpper(kind[:1]) + kind[1:],
		"metadata": map[string]any{"name": name, "labels": map[string]any{"app": "web"}}, "spec": s.object(random, manifestRarity),
	})
}

func encodedText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // it is made of maps and text
	}
	return string(text)
}

// portionOf is a configuration with some fields of an object.
func portionOf(random *rand.Rand, s *shape, obj *unstructured.Unstructured) *unstructured.Unstructured {
	config := &unstructured.Unstructured{Object: map[string]any{"apiVersion": obj.GetAPIVersion(), "kind": obj.GetKind()}}
	config.SetName(obj.GetName())
	config.SetNamespace(obj.GetNamespace())
	part, _ := asDecoded(s.object(random, editRarity)).(map[string]any)
	live, _ := obj.Object["spec"].(map[string]any)
	for name := range part {
		if value, there := live[name]; there && random.IntN(2) == 0 {
			part[name] = value // co-owned
		}
	}
	config.Object["spec"] = part
	return config
}
