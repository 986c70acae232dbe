package ownership

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// SameValue reports whether two configurations have the same value of a field that manager applied to live. field is the path as the
// API server names it in a conflict. It reports false for a field that one of them lacks.
func SameValue(live *unstructured.Unstructured, manager, field string, a, b *unstructured.Unstructured) bool {
	same := false
	setOf(applied(live, manager)).Iterate(func(path fieldpath.Path) {
		if path.String() != field {
			return
		}
		one, inA := configuredAt(a.Object, path)
		other, inB := configuredAt(b.Object, path)
		same = same || inA && inB && reflect.DeepEqual(one, other)
	})
	return same
}

// configuredAt returns the value of a configuration at a path. Items of lists may leave out keys with a default.
func configuredAt(configuration any, path fieldpath.Path) (any, bool) {
	at := &node{live: configuration}
	for _, element := range path {
		child, _, found := at.configured(element, true)
		if !found {
			return nil, false
		}
		at = child
	}
	return at.live, true
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
