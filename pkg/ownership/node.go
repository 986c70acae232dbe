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
	// index has the places of the items of a long list by their keys; nil until it is needed.
	index map[itemKey]int
	// names are the keys of index; empty for a set.
	names itemNames
}

// itemKey identifies an item of a list: the values of its keys, or in
// a set the item itself. Lists of built-in kinds have up to four keys.
type itemKey [4]any

// itemNames are the names of the keys in an itemKey.
type itemNames [len(itemKey{})]string

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
		if i, found, indexed := n.lookUp(list, itemNames{name}, itemKey{keyValue(text)}); indexed {
			if !found {
				return nil, false
			}
			return list[i], true
		}
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
		if names, key, ok := keyOfElement(element); ok {
			if i, found, indexed := n.lookUp(list, names, key); indexed {
				return i, found
			}
		}
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
		i, found = placeOfDefaulted(list, element)
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
func placeOfDefaulted(list []any, element fieldpath.PathElement) (i int, found bool) {
	i = slices.IndexFunc(list, func(item any) bool { return maySelect(element, item) })
	return i, i >= 0
}

// placeOfApplied is placeOfDefaulted for an element of ours, or if ours has no other element for the item. list is the value of n.
func (n *node) placeOfApplied(list []any, element fieldpath.PathElement, ours *fieldpath.Set) (i int, found bool) {
	i, found = placeOfDefaulted(list, element)
	if !found || ours.Members.Has(element) || !ours.WithPrefix(element).Empty() {
		return i, found
	}
	return i, !slices.ContainsFunc(elements(ours), func(applied fieldpath.PathElement) bool {
		return maySelect(applied, list[i]) && !n.isOther(applied, i)
	})
}

// isOther reports whether element is the key of an item of a list other than the item i, which leaves out keys with a default.
func (n *node) isOther(element fieldpath.PathElement, i int) bool {
	list, _ := n.live.([]any)
	at, found := n.place(list, element)
	return found && at != i
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
	for _, item := range list {
		if err == nil && maySelect(element, item) {
			count++
		}
	}
	return count
}

// maySelect is like selects, for an item that may omit keys with a default.
func maySelect(element fieldpath.PathElement, item any) bool {
	m, ok := item.(map[string]any)
	if !ok || element.Key == nil {
		return false
	}
	present := 0
	for _, field := range *element.Key {
		got, found := m[field.Name]
		if found && !sameKey(got, field.Value) {
			return false
		}
		if found {
			present++
		}
	}
	return present > 0
}

// isZero reports whether a server may leave out a key that has a value.
func isZero(v any) bool { return isScalar(v) && isEmpty(v) }

// lookUp finds the items of selects through the index. It reports indexed false if the index was made for other names.
func (n *node) lookUp(list []any, names itemNames, key itemKey) (i int, found, indexed bool) {
	if n.index == nil {
		n.names, n.index = names, indexOf(list, names)
	}
	if n.names != names {
		return 0, false, false
	}
	i, found = n.index[key]
	return i, found, true
}

// keyOfElement is the key of element in an index; ok reports whether an index can have it.
func keyOfElement(element fieldpath.PathElement) (names itemNames, key itemKey, ok bool) {
	switch {
	case element.Value != nil:
		key[0], ok = scalar((*element.Value).Unstructured())
	case element.Key != nil && len(*element.Key) <= len(key):
		for i, field := range *element.Key {
			names[i] = field.Name
			if key[i], ok = scalar(keyValue(field.Value.Unstructured())); !ok || field.Name == "" {
				return names, key, false
			}
		}
	}
	return names, key, ok
}

// indexOf indexes a list by the keys names, or as a set if names is empty. The
// first of equal items counts, as in a scan.
func indexOf(list []any, names itemNames) map[itemKey]int {
	index := make(map[itemKey]int, len(list))
	for i, item := range slices.Backward(list) {
		if key, ok := keyOf(item, names); ok {
			index[key] = i
		}
	}
	return index
}

// keyOf is the key of an item; ok reports whether it has one.
func keyOf(item any, names itemNames) (key itemKey, ok bool) {
	if names == (itemNames{}) {
		key[0], ok = scalar(item)
		return key, ok
	}
	m, ok := item.(map[string]any)
	for i, name := range names {
		if name != "" && ok {
			key[i], ok = scalar(keyValue(m[name]))
		}
	}
	return key, ok
}

// keyValue is v, or nil where sameKey takes it for that.
func keyValue(v any) any {
	if isZero(v) {
		return nil
	}
	return v
}

// scalar is v so that == compares it as value.Equals does; ok is false if v is a
// map or a list. The keys of a path are read with all numbers as float64.
func scalar(v any) (key any, ok bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case nil, bool, string, float64:
		return v, true
	default:
		return nil, false
	}
}
