package ownership

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// SameValues returns a function that reports whether two configurations have the same value of a field that manager applied to live. field is
// the path as the API server names it in a conflict. It reports false for a field that one of them lacks.
func SameValues(live *unstructured.Unstructured, manager string, a, b *unstructured.Unstructured) func(field string) bool {
	return (&common{below: setOf(applied(live, manager)), a: &node{live: a.Object}, b: &node{live: b.Object}}).same
}

// common is an owned field that two configurations have.
type common struct {
	owned bool
	below *fieldpath.Set
	a, b  *node
	// children are the fields in it by the texts of their elements, and lengths the lengths of these; nil until they are needed.
	children map[string]*common
	lengths  []int
}

// same is SameValues for the rest of a path below the field.
func (c *common) same(rest string) bool {
	if c.children == nil {
		c.children = map[string]*common{}
		lengths := sets.Set[int]{}
		for _, element := range elements(c.below) {
			a, _, inA := c.a.configured(element, true)
			b, _, inB := c.b.configured(element, true)
			if inA && inB {
				text := element.String()
				c.children[text] = &common{owned: c.below.Members.Has(element), below: c.below.WithPrefix(element), a: a, b: b}
				lengths.Insert(len(text))
			}
		}
		c.lengths = sets.List(lengths)
	}
	for _, length := range c.lengths { // a name may have dots
		if length > len(rest) {
			break
		}
		child, after := c.children[rest[:length]], rest[length:]
		if child != nil && (after == "" && child.owned && reflect.DeepEqual(child.a.live, child.b.live) || child.same(after)) {
			return true
		}
	}
	return false
}

// Disagreement returns the path of a field with different values in two configurations; false if there is none. Fields that
// one of them lacks are ignored, and so is the version of the API. Items of lists are compared by their name, and lists without names as a whole.
func Disagreement(a, b *unstructured.Unstructured) (path string, differs bool) {
	versioned := maps.Clone(a.Object)
	delete(versioned, "apiVersion")
	return disagreement("", versioned, b.Object)
}

func disagreement(at string, a, b any) (path string, differs bool) {
	switch a := a.(type) {
	case map[string]any:
		if b, is := b.(map[string]any); is {
			for _, name := range slices.Sorted(maps.Keys(a)) {
				other, has := b[name]
				if !has {
					continue
				}
				if path, differs := disagreement(strings.TrimPrefix(at+"."+name, "."), a[name], other); differs {
					return path, true
				}
			}
			return "", false
		}
	case []any:
		if named, is := byName(a); is {
			if others, is := byName(b); is {
				return disagreement(at, named, others)
			}
		}
	}
	return at, !reflect.DeepEqual(a, b)
}

// byName returns the items of a list by their names; named reports whether each has one.
func byName(list any) (items map[string]any, named bool) {
	all, is := list.([]any)
	items = make(map[string]any, len(all))
	for _, item := range all {
		fields, _ := item.(map[string]any)
		name, has := fields["name"].(string)
		if !has {
			return nil, false
		}
		items[name] = fields
	}
	return items, is
}
