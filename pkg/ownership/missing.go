package ownership

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// parents are the parents of removed fields, as a tree. nil is empty.
type parents struct {
	// here reports that something that is ours was removed directly below this node, or, in a larger scope, changed.
	here bool
	// dropped are the keys of fields that are ours and that the configuration lacks; only in the scope Defaults.
	dropped sets.Set[string]
	// below are the children by their keys, written as in a fieldsV1.
	below map[string]*parents
}

// orNil is p, or nil if it is empty.
func (p *parents) orNil() *parents {
	if !p.here && len(p.dropped) == 0 && len(p.below) == 0 {
		return nil
	}
	return p
}

// drops reports whether the configuration has dropped the child with a key.
func (p *parents) drops(key string) bool { return p != nil && p.dropped.Has(key) }

// parentsOf selects the parents of fields.
func parentsOf(fields [][]string) *Selection {
	selected := &Selection{}
	for _, field := range fields {
		selected.Add(field[:max(0, len(field)-1)]...)
	}
	return selected
}

// within returns the nodes of p at or below selected parents; nil is empty. Items of lists are at the names of their list.
func (p *parents) within(selected *Selection) *parents {
	switch {
	case p == nil || selected == nil:
		return nil
	case selected.whole:
		return p.orNil()
	}
	part := parents{dropped: sets.Set[string]{}, below: map[string]*parents{}}
	for key := range p.dropped {
		if at := selected.parts[strings.TrimPrefix(key, "f:")]; at != nil && at.whole {
			part.dropped.Insert(key)
		}
	}
	for key, below := range p.below {
		at := selected
		if name, isField := strings.CutPrefix(key, "f:"); isField {
			at = selected.parts[name]
		}
		if sub := below.within(at); sub != nil {
			part.below[key] = sub
		}
	}
	return part.orNil()
}

func (p *parents) child(key string) *parents {
	if p == nil {
		return nil
	}
	return p.below[key]
}

// missing returns the parents of fields that the configuration has and live lacks, and, from the scope BesideChanged on, of
// fields that another manager has changed. ours is still ours at this node, and all is owned there by any manager: it shows
// the kinds of lists. An absent field that is still ours was never stored: the API server keeps nothing of it. If the former
// ownership is unknown, it may drop an empty value; of an empty list the ownership is always unknown. If it refuses the object, the
// empty value counts as removed: it may be a member of a union, such as emptyDir.
func (s *search) missing(conf, live any, ours, all *fieldpath.Set, path *step) *parents {
	p := parents{below: map[string]*parents{}}
	switch conf := conf.(type) {
	case map[string]any:
		fields, _ := live.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(conf)) {
			value, there := fields[name]
			s.missingChild(&p, fieldpath.PathElement{FieldName: &name}, conf[name], value, there, ours, all, path)
		}
		if s.undo.Scope == Defaults {
			p.dropped = droppedFields(conf, fields, ours)
		}
	case []any:
		list, configured := node{live: live}, node{live: conf}
		names, set := listOf(all)
		exact := sync.OnceValue(func() map[int]fieldpath.PathElement { return configured.selectedBy(elements(ours)) })
		alike := sync.OnceValue(func() map[int]fieldpath.PathElement { return configured.similarTo(elementsOf(live, names)) })
		for i, item := range conf {
			element, known := elementOf(item, names, set)
			if _, isMap := item.(map[string]any); !known && isMap && names != nil {
				if element, known = exact()[i]; !known {
					element, known = configured.similarIn(ours)[i]
				}
				if !known && !s.recorded { // its owner is unknown: an item that looks like it counts
					element, known = alike()[i]
				}
			}
			if !known {
				p.here = p.here || names != nil || set || isEmpty(live)
				s.loseUnidentified(item, names, path)
				continue
			}
			value, there := list.child(element)
			s.missingChild(&p, element, item, value, there, ours, all, path)
		}
	}
	return p.orNil()
}

// droppedFields returns the keys of the fields of a map that are ours and that the configuration lacks.
func droppedFields(conf, live map[string]any, ours *fieldpath.Set) sets.Set[string] {
	dropped := sets.Set[string]{}
	for _, element := range elements(ours) {
		if element.FieldName == nil {
			continue
		}
		_, configured := conf[*element.FieldName]
		if _, there := live[*element.FieldName]; there && !configured {
			dropped.Insert("f:" + *element.FieldName)
		}
	}
	return dropped
}

// loseUnidentified adds an item of the configuration that lacks keys with defaults.
func (s *search) loseUnidentified(item any, names []string, path *step) {
	fields, _ := item.(map[string]any)
	if key := keyIn(fields, names); len(key) > 0 {
		s.lost = append(s.lost, s.change(Removed, path.child(fieldpath.PathElement{Key: &key}), nil, item))
	}
}

// missingChild adds the missing parts of a child to p.
func (s *search) missingChild(p *parents, element fieldpath.PathElement, conf, live any, there bool, ours, all *fieldpath.Set, path *step) {
	at := path.child(element)
	_, nested := all.Children.Get(element)
	_, oursNested := ours.Children.Get(element)
	owned := ours.Members.Has(element) || oursNested
	switch {
	case !there && (owned || conf == nil || s.undo.Scope == BesideRemoved && (!s.recorded && isEmpty(conf) || isPathless(conf))):
	case !there:
		p.here = true
		s.lost = append(s.lost, s.change(Removed, at, nil, conf))
	case !nested && all.Members.Has(element), isScalar(conf):
		// A scalar, or a map or list that is owned as a whole.
		if (!owned || s.undo.Scope == Defaults) && digestOf(conf) != digestOf(live) {
			p.here = p.here || s.undo.Scope >= BesideChanged
			s.lost = append(s.lost, s.change(Changed, at, live, conf))
		}
	default:
		key, err := fieldpath.SerializePathElement(element)
		if sub := s.missing(conf, live, ours.WithPrefix(element), all.WithPrefix(element), at); sub != nil && err == nil {
			p.below[key] = sub
		}
	}
}

// listOf returns the identification of the items of a list: the fields names, or the items themselves in a set. It is unknown
// for a list without an owned item.
func listOf(all *fieldpath.Set) (names []string, set bool) {
	for _, element := range elements(all) {
		switch {
		case element.Key != nil:
			for _, field := range *element.Key {
				names = append(names, field.Name)
			}
			return names, false
		case element.Value != nil:
			return nil, true
		}
	}
	return nil, false
}

// elementOf returns the element that selects an item of the configuration in a list. It is unknown if the configuration lacks one of its keys, which
// has a default.
func elementOf(item any, names []string, set bool) (element fieldpath.PathElement, known bool) {
	if set {
		v := value.NewValueInterface(item)
		return fieldpath.PathElement{Value: &v}, true
	}
	fields, isMap := item.(map[string]any)
	key := keyIn(fields, names)
	return fieldpath.PathElement{Key: &key}, isMap && names != nil && len(key) == len(names)
}

// elementsOf returns the elements of the items of a list by those of names that they have, in their order: a server leaves out zero values.
func elementsOf(live any, names []string) (all []fieldpath.PathElement) {
	list, _ := live.([]any)
	for _, item := range list {
		fields, _ := item.(map[string]any)
		key := keyIn(fields, names)
		all = append(all, fieldpath.PathElement{Key: &key})
	}
	return all
}

// keyIn is the key of an item by the fields names, as far as it has them.
func keyIn(item map[string]any, names []string) value.FieldList {
	key := make(value.FieldList, 0, len(names))
	for _, name := range names {
		if v, found := item[name]; found {
			key = append(key, value.Field{Name: name, Value: value.NewValueInterface(v)})
		}
	}
	key.Sort()
	return key
}

// isScalar reports whether a value is anything but a map or a list.
func isScalar(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// isPathless reports whether managedFields may have no path for a value of the configuration: a list without items, or a map of nothing else.
func isPathless(v any) bool {
	switch v := v.(type) {
	case []any:
		return len(v) == 0
	case map[string]any:
		for _, field := range v {
			if !isPathless(field) {
				return false
			}
		}
		return len(v) > 0
	}
	return false
}

// isEmpty reports whether the API server may drop a value.
func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case bool:
		return !v
	case int64:
		return v == 0
	case float64:
		return v == 0
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}
