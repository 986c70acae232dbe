package ownership

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// serverFields are the fields at the top of an object in which the API server keeps unowned values that every apply keeps, such
// as metadata.uid.
var serverFields = []string{"apiVersion", "kind", "metadata", "status"}

// addUnowned adds an entry with the unowned fields beside removed or changed ones. Such a field has a default, or a value that
// the API server allocated.
func (s *search) addUnowned() {
	var owned []*fieldpath.Set
	for r := range records(s.live) {
		owned = append(owned, setOf(r.fields()))
	}
	set := s.unowned(s.live.Object, &node{live: s.undo.Configuration}, unionOf(owned), s.touched, &step{})
	if !set.Empty() {
		e := &entry{index: -1, set: set}
		s.managers.entries, s.managers.editors = append(s.managers.entries, e), append(s.managers.editors, e)
	}
}

// unowned returns the unowned fields below the touched parents, except fields of the configuration. It descends where the
// configuration has a node, and searches the rest to its leaves.
func (s *search) unowned(live any, conf *node, owned *fieldpath.Set, touched *parents, path *step) *fieldpath.Set {
	set := fieldpath.NewSet()
	if touched == nil {
		return set
	}
	if fields, isMap := live.(map[string]any); isMap && touched.here {
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			element := fieldpath.PathElement{FieldName: &name}
			if _, configured := conf.field(name); !configured && !isServerField(path, element) {
				addUnownedBelow(set, element, fields[name], owned)
			}
		}
	}
	list := node{live: live}
	for _, key := range sets.List(touched.dropped) {
		element, err := fieldpath.DeserializePathElement(key)
		if value, there := list.child(element); err == nil && there && !touched.here && !isServerField(path, element) {
			addUnownedBelow(set, element, value, owned)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(touched.below)) {
		element, err := fieldpath.DeserializePathElement(key)
		value, there := list.child(element)
		sub, _, configured := conf.configured(element, true)
		if err != nil || !there || !configured || isServerField(path, element) {
			continue
		}
		if below := s.unowned(value, sub, owned.WithPrefix(element), touched.below[key], path.child(element)); !below.Empty() {
			*set.Children.Descend(element) = *below
		}
	}
	return set
}

// isServerField reports whether an unowned field has another source than a default. Of spec.replicas, the API server records no
// owner when it is set through the subresource scale.
func isServerField(path *step, element fieldpath.PathElement) bool {
	if path.depth == 1 && path.element.FieldName != nil && element.FieldName != nil {
		return *path.element.FieldName == "spec" && *element.FieldName == "replicas"
	}
	return path.depth == 0 && element.FieldName != nil && slices.Contains(serverFields, *element.FieldName)
}

// addUnownedBelow adds a child of a map to set, with the unowned fields below it. An unowned list is one field.
func addUnownedBelow(set *fieldpath.Set, element fieldpath.PathElement, live any, owned *fieldpath.Set) {
	below, nested := owned.Children.Get(element)
	if !nested && owned.Members.Has(element) {
		return // as a whole
	}
	if !nested {
		below = fieldpath.NewSet()
		set.Members.Insert(element)
	}
	fields, _ := live.(map[string]any)
	sub := fieldpath.NewSet()
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		addUnownedBelow(sub, fieldpath.PathElement{FieldName: &name}, fields[name], below)
	}
	if !sub.Empty() {
		child := set.Children.Descend(element)
		*child = *child.Union(sub)
	}
}
