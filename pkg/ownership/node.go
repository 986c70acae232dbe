package ownership

import (
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// scanned is the length of the longest list that is searched item by item. A longer one is indexed first, so that the time is linear
// in its size.
const scanned = 16

// node finds the children of one live value.
type node struct {
	live any
	// indexes are the indexes of a list, one for each set of keys, made on demand.
	indexes []*index
	// similar is the result of similarTo for the set applied.
	applied *fieldpath.Set
	similar map[int]fieldpath.PathElement
}

// field is the child of a map.
func (n *node) field(name string) (any, bool) {
	m, _ := n.live.(map[string]any)
	v, found := m[name]
	return v, found
}

// find is the child that the key of a tree selects.
func (n *node) find(key string) (any, bool) {
	if name, ok := strings.CutPrefix(key, "f:"); ok {
		return n.field(name)
	}
	if name, text, ok := plainKey(key); ok {
		return n.item(name, text)
	}
	element, err := fieldpath.DeserializePathElement(key)
	if err != nil {
		return nil, false
	}
	return n.child(element)
}

// plainKey reads k:{"name":"text"}, the key of nearly all items: parsing it as
// JSON would take a third of the time of a digest. ok is false for any other form.
func plainKey(key string) (name, text string, ok bool) {
	rest, ok := strings.CutPrefix(key, `k:{"`)
	if !ok || strings.IndexByte(rest, '\\') >= 0 {
		return "", "", false
	}
	name, rest, _ = strings.Cut(rest, `":"`)
	text, ok = strings.CutSuffix(rest, `"}`)
	return name, text, ok && name != "" && strings.IndexByte(name, '"') < 0 && strings.IndexByte(text, '"') < 0
}

// item is the item of a list whose field name has the value text.
func (n *node) item(name, text string) (any, bool) {
	list, _ := n.live.([]any)
	if len(list) > scanned {
		g, found := n.indexBy(list, false, []string{name}).equal(itemKey{keyValue(text)})
		if !found {
			return nil, false
		}
		return list[g.first], true
	}
	for _, item := range list {
		m, ok := item.(map[string]any)
		if s, isText := m[name].(string); isText && s == text || ok && text == "" && isZero(m[name]) {
			return item, true
		}
	}
	return nil, false
}

// child is the child that element selects.
func (n *node) child(element fieldpath.PathElement) (any, bool) {
	if element.FieldName != nil {
		return n.field(*element.FieldName)
	}
	list, _ := n.live.([]any)
	i, found := n.place(list, element)
	if !found {
		return nil, false
	}
	return list[i], true
}

// place is the index of the item of a list that element selects. list is the value of n.
func (n *node) place(list []any, element fieldpath.PathElement) (i int, found bool) {
	if element.Index != nil {
		return *element.Index, *element.Index >= 0 && *element.Index < len(list)
	}
	if len(list) > scanned {
		g, found := n.selected(list, element)
		return g.first, found
	}
	i = slices.IndexFunc(list, func(item any) bool { return selects(element, item) })
	return i, i >= 0
}

// configured is the value of a configuration at an element, with its name or index there. An item may leave out keys that have
// a default: then defaulted reports whether it is the selected one.
func (n *node) configured(element fieldpath.PathElement, defaulted bool) (child *node, token string, found bool) {
	if element.FieldName != nil {
		v, found := n.field(*element.FieldName)
		return &node{live: v}, *element.FieldName, found
	}
	list, _ := n.live.([]any)
	i, found := n.place(list, element)
	if !found && defaulted {
		i, found = n.placeOfDefaulted(list, element)
	}
	if !found {
		return &node{}, "", false
	}
	return &node{live: list[i]}, strconv.Itoa(i), true
}

// configuredBy is configured for an element of any field manager. ours are the elements of the manager that applied the configuration.
func (n *node) configuredBy(element fieldpath.PathElement, ours *fieldpath.Set) (child *node, token string, found bool) {
	child, token, found = n.configured(element, false)
	if list, isList := n.live.([]any); isList && !found {
		if i, applied := n.placeOfApplied(list, element, ours); applied {
			return &node{live: list[i]}, strconv.Itoa(i), true
		}
	}
	return child, token, found
}

// placeOfDefaulted is place for an item of a configuration that may leave out keys with a default.
func (n *node) placeOfDefaulted(list []any, element fieldpath.PathElement) (i int, found bool) {
	for _, g := range n.maySelect(list, element) {
		if !found || g.first < i {
			i, found = g.first, true
		}
	}
	return i, found
}

// placeOfApplied is placeOfDefaulted for an element of ours, or if ours has no other element for the item. list is the value of n.
func (n *node) placeOfApplied(list []any, element fieldpath.PathElement, ours *fieldpath.Set) (i int, found bool) {
	i, found = n.placeOfDefaulted(list, element)
	if !found || ours.Members.Has(element) || !ours.WithPrefix(element).Empty() {
		return i, found
	}
	_, other := n.similarIn(ours)[i]
	return i, !other
}

// selects reports whether element is the key of item, or in a set its value.
func selects(element fieldpath.PathElement, item any) bool {
	switch {
	case element.Value != nil:
		return value.Equals(value.NewValueInterface(item), *element.Value)
	case element.Key != nil:
		m, ok := item.(map[string]any)
		for _, field := range *element.Key {
			ok = ok && sameKey(m[field.Name], field.Value)
		}
		return ok
	default:
		return false
	}
}

// sameKey reports whether an item whose key is got, nil for none, is the item with the key want. An absent key has its
// default. Servers write defaulted keys into the object, but leave out zero values: of an imagePullSecret without a name,
// managedFields have {"name":""}.
func sameKey(got any, want value.Value) bool {
	return isZero(got) && isZero(want.Unstructured()) || value.Equals(value.NewValueInterface(got), want)
}

// configuredKey is configured for the key of a tree. The API server writes the defaults of the keys that an item leaves out into it.
func (n *node) configuredKey(key string, defaulted bool) (child *node, token string, found bool) {
	element, err := fieldpath.DeserializePathElement(key)
	if err != nil { // "." is none
		return nil, "", false
	}
	return n.configured(element, defaulted)
}

// defaultedItems counts the items of a configuration that the key of a tree may select.
func (n *node) defaultedItems(key string) (count int) {
	list, _ := n.live.([]any)
	element, err := fieldpath.DeserializePathElement(key)
	if err != nil {
		return 0
	}
	for _, g := range n.maySelect(list, element) {
		count += g.count()
	}
	return count
}

// isZero reports whether a server may leave out a key that has a value.
func isZero(v any) bool { return isScalar(v) && isEmpty(v) }
