package ownership

import (
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// The bounds of the work for managedFields that a user edited: the elements of a list select items by at most maxIndexes sets of names, of at most
// maxNames names each. The items of a configuration that leave out keys have at most maxShapes sets of names.
const (
	maxIndexes = 16
	maxNames   = 16
	maxShapes  = 1 << 5
)

// index finds the items of a list by the values of names, or in a set by the items themselves.
type index struct {
	list  []any
	set   bool
	names []string
	// whole has the items by the values of all names, and partial by the names that they have and the values of these. shapes are the sets of names
	// in partial, as bits. All are nil until they are needed.
	whole, partial *groups
	shapes         []uint16
}

// itemKey identifies an item of a list: the values of its keys, or in a set the item itself. Lists of built-in kinds have up to four
// keys; more have a common digest.
type itemKey [4]any

// groups are the items of a list with equal keys.
type groups struct {
	// first has the place of the first item with a key.
	first map[itemKey]int
	// items are by their places; nil if each has a key of its own.
	items []grouped
}

// grouped is an item in its group: the place of the next one, and the count of the items after it.
type grouped struct{ next, after int }

// group has the items with one key.
type group struct {
	of    *groups
	first int
}

// groupsOf groups the items of a list by their keys, and leaves out items without one.
func groupsOf(list []any, keyOf func(item any) (itemKey, bool)) *groups {
	of := &groups{first: make(map[itemKey]int, len(list))}
	for i, item := range slices.Backward(list) {
		key, ok := keyOf(item)
		if !ok {
			continue
		}
		if next, known := of.first[key]; known {
			if of.items == nil {
				of.items = make([]grouped, len(list))
			}
			of.items[i] = grouped{next, of.items[next].after + 1}
		}
		of.first[key] = i
	}
	return of
}

// count returns the count of the items of the group.
func (g group) count() int {
	if g.of.items == nil {
		return 1
	}
	return 1 + g.of.items[g.first].after
}

// with returns the group with a key.
func (of *groups) with(key itemKey) (g group, found bool) {
	first, found := of.first[key]
	return group{of, first}, found
}

// indexBy returns the index of a list, which is the value of n, by names; nil if it would be one too many.
func (n *node) indexBy(list []any, set bool, names []string) *index {
	for _, x := range n.indexes {
		if x.set == set && slices.Equal(x.names, names) {
			return x
		}
	}
	if len(n.indexes) == maxIndexes || len(names) > maxNames {
		return nil
	}
	x := &index{list: list, set: set, names: slices.Clone(names)}
	n.indexes = append(n.indexes, x)
	return x
}

// indexFor returns the index that may find an element; nil if there is none.
func (n *node) indexFor(list []any, element fieldpath.PathElement) *index {
	switch {
	case element.Value != nil:
		return n.indexBy(list, true, nil)
	case element.Key != nil:
		names := make([]string, 0, maxNames)
		for _, field := range *element.Key {
			names = append(names, field.Name)
		}
		return n.indexBy(list, false, names)
	}
	return nil
}

// equal returns the items with all values of a key.
func (x *index) equal(key itemKey) (g group, found bool) {
	if x == nil {
		return group{}, false
	}
	if x.whole == nil {
		x.whole = groupsOf(x.list, func(item any) (itemKey, bool) {
			m, isMap := item.(map[string]any)
			if x.set {
				return itemKey{scalar(item)}, true
			}
			return keyOf(len(x.names), allNames, func(i int) any { return m[x.names[i]] }), isMap
		})
	}
	return x.whole.with(key)
}

// selected returns the items that element selects. list is the value of n.
func (n *node) selected(list []any, element fieldpath.PathElement) (g group, found bool) {
	return n.indexFor(list, element).equal(keyOfElement(element, allNames))
}

// maySelect returns the groups of the items that element may select: they have some of its keys, and leave out keys with a default. list is the
// value of n.
func (n *node) maySelect(list []any, element fieldpath.PathElement) (all []group) {
	x := n.indexFor(list, element)
	if x == nil {
		return nil
	}
	if x.partial == nil {
		x.partial = groupsOf(list, func(item any) (itemKey, bool) {
			m, _ := item.(map[string]any)
			var shape uint16
			for i, name := range x.names {
				if _, has := m[name]; has {
					shape |= 1 << i
				}
			}
			if shape == 0 || !slices.Contains(x.shapes, shape) && len(x.shapes) == maxShapes {
				return itemKey{}, false
			}
			if !slices.Contains(x.shapes, shape) {
				x.shapes = append(x.shapes, shape)
			}
			return keyOf(len(x.names), shape, func(i int) any { return m[x.names[i]] }), true
		})
	}
	for _, shape := range x.shapes {
		if g, found := x.partial.with(keyOfElement(element, shape)); found {
			all = append(all, g)
		}
	}
	return all
}

// allNames is the shape of an item with all names.
const allNames = 1<<maxNames - 1

// keyOfElement returns the key of the items of a shape that element selects.
func keyOfElement(element fieldpath.PathElement, shape uint16) itemKey {
	switch {
	case element.Value != nil:
		return itemKey{scalar((*element.Value).Unstructured())}
	case element.Key != nil:
		fields := *element.Key
		return keyOf(len(fields), shape, func(i int) any { return fields[i].Value.Unstructured() })
	}
	return itemKey{}
}

// keyOf returns the key with the values of the names of a shape.
func keyOf(count int, shape uint16, value func(i int) any) (key itemKey) {
	values := key[:]
	if count > len(key) {
		values = make([]any, count)
	}
	for i := range count {
		if values[i] = any(absent{}); shape>>i&1 == 1 {
			values[i] = keyValue(value(i))
		}
	}
	if count > len(key) {
		return itemKey{keyDigest(values)}
	}
	for i, value := range key[:count] {
		key[i] = scalar(value)
	}
	return key
}

// keyValue is v, or nil where sameKey takes it for that.
func keyValue(v any) any {
	if isZero(v) {
		return nil
	}
	return v
}

// scalar is v so that == compares it as value.Equals does: a map or a list is its digest. The keys of a path are read with all numbers as float64.
func scalar(v any) any {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case nil, bool, string, float64, absent:
		return v
	default:
		return keyDigest(v)
	}
}

// keyDigest is equal for values that value.Equals finds equal.
func keyDigest(v any) Digest {
	e := encoders.Get().(*encoder)
	e.floats = true
	e.value(v)
	e.floats = false
	return e.digest()
}

// firsts has the first of several elements for the items of a list, by their places.
type firsts struct {
	of   map[int]fieldpath.PathElement
	seen map[group]bool
}

func newFirsts() firsts { return firsts{map[int]fieldpath.PathElement{}, map[group]bool{}} }

// add adds an element for an item.
func (f firsts) add(i int, element fieldpath.PathElement) {
	if _, known := f.of[i]; !known {
		f.of[i] = element
	}
}

// addAll adds an element for the items of a group.
func (f firsts) addAll(g group, element fieldpath.PathElement) {
	if f.seen[g] {
		return
	}
	f.seen[g] = true
	f.add(g.first, element)
	for i, more := g.first, g.count()-1; more > 0; more-- {
		i = g.of.items[i].next
		f.add(i, element)
	}
}

// similarTo returns the first of the elements that may select an item and select no other one, by the places of the items of n, a configuration.
func (n *node) similarTo(all []fieldpath.PathElement) map[int]fieldpath.PathElement {
	list, _ := n.live.([]any)
	similar := newFirsts()
	for _, element := range all {
		i, selected := n.place(list, element)
		if selected && hasKeyOf(list[i], element) {
			similar.add(i, element)
		}
		if !selected {
			for _, g := range n.maySelect(list, element) {
				similar.addAll(g, element)
			}
		}
	}
	return similar.of
}

// similarIn is similarTo for the elements of a set.
func (n *node) similarIn(set *fieldpath.Set) map[int]fieldpath.PathElement {
	if n.similar == nil || n.applied != set {
		n.applied, n.similar = set, n.similarTo(elements(set))
	}
	return n.similar
}

// selectedBy returns the first of the elements that select an item before others, by the places of the items of n.
func (n *node) selectedBy(all []fieldpath.PathElement) map[int]fieldpath.PathElement {
	list, _ := n.live.([]any)
	by := map[int]fieldpath.PathElement{}
	for _, element := range slices.Backward(all) {
		if i, found := n.place(list, element); found && element.Index == nil {
			by[i] = element
		}
	}
	return by
}

// hasKeyOf reports whether an item has one of the keys of element.
func hasKeyOf(item any, element fieldpath.PathElement) bool {
	m, _ := item.(map[string]any)
	return element.Key != nil && slices.ContainsFunc(*element.Key, func(field value.Field) bool { _, has := m[field.Name]; return has })
}
