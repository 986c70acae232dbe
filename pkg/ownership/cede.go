package ownership

import (
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// SetBy lists the fields of an applied configuration that other managers own in
// obj, each as the names and indexes that lead to it. The keys by which an item
// of a list is found are none of them.
func SetBy(obj *unstructured.Unstructured, managers []string, configuration map[string]any) [][]string {
	var paths [][]string
	for r := range records(obj) {
		if slices.Contains(managers, r.text("manager")) {
			paths = appendSet(paths, r.fields(), configuration, nil, nil)
		}
	}
	return paths
}

// appendSet appends the leaves of fields that configuration has. keys are the
// names of the fields by which it is found in its list.
func appendSet(paths [][]string, fields fieldsV1, configuration any, at []string, keys []string) [][]string {
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		child, token, found := configured(configuration, key)
		if !found || slices.Contains(keys, token) {
			continue
		}
		path := append(slices.Clone(at), token)
		if sub, _ := fields[key].(map[string]any); len(sub) > 0 {
			paths = appendSet(paths, sub, child, path, keysOf(key))
		} else {
			paths = append(paths, path)
		}
	}
	return paths
}

// keysOf are the names of the fields by which key finds an item of a list.
func keysOf(key string) []string {
	element, err := fieldpath.DeserializePathElement(key)
	if err != nil || element.Key == nil {
		return nil
	}
	names := make([]string, 0, len(*element.Key))
	for _, field := range *element.Key {
		names = append(names, field.Name)
	}
	return names
}

// Whole cuts a path into an applied configuration, names and indexes, where what
// manager applied to obj is owned as a whole: in an atomic map or list, one field
// cannot be had without the others.
func Whole(obj *unstructured.Unstructured, manager string, configuration map[string]any, path []string) []string {
	fields, at := applied(obj, manager), any(configuration)
	for i, token := range path {
		var sub fieldsV1
		owned := false
		for key := range fields {
			if child, name, found := configured(at, key); found && name == token {
				sub, _ = fields[key].(map[string]any)
				at, owned = child, true
				break
			}
		}
		if !owned {
			return path
		}
		if len(sub) == 0 {
			return path[:i+1]
		}
		fields = sub
	}
	return path
}

// configured is what a configuration has at a key of a tree, and the name or index
// that it has there. A key of a list item that the configuration leaves out has its
// default: the API server writes it into the tree.
func configured(configuration any, key string) (child any, token string, found bool) {
	element, err := fieldpath.DeserializePathElement(key)
	if key == "." || err != nil {
		return nil, "", false
	}
	if element.FieldName != nil {
		m, _ := configuration.(map[string]any)
		child, found = m[*element.FieldName]
		return child, *element.FieldName, found
	}
	list, _ := configuration.([]any)
	if i := element.Index; i != nil && *i >= 0 && *i < len(list) {
		return list[*i], strconv.Itoa(*i), true
	}
	for _, matches := range []func(fieldpath.PathElement, any) bool{selects, maySelect} {
		for i, item := range list {
			if matches(element, item) {
				return item, strconv.Itoa(i), true
			}
		}
	}
	return nil, "", false
}

// maySelect is selects for an item that may leave out keys that have a default.
func maySelect(element fieldpath.PathElement, item any) bool {
	m, ok := item.(map[string]any)
	if !ok || element.Key == nil {
		return false
	}
	present := 0
	for _, field := range *element.Key {
		got, found := m[field.Name]
		if found && !value.Equals(value.NewValueInterface(got), field.Value) {
			return false
		}
		if found {
			present++
		}
	}
	return present > 0
}

// Cede returns the managedFields of obj without what manager gives up: what was
// in the configuration that it applied before, and is not in the one that it is
// about to apply. An apply alone would take such fields away from the object
// where nobody else owns them. ceded is false when there is nothing to give up.
//
// The result is for a write of metadata.managedFields, as in
// k8s.io/client-go/util/csaupgrade.
func Cede(obj *unstructured.Unstructured, manager string, before, after map[string]any) (managedFields []any, ceded bool) {
	list, _, _ := unstructured.NestedSlice(obj.Object, "metadata", "managedFields") // a copy
	for _, item := range list {
		m, _ := item.(map[string]any)
		if r := record(m); r.text("manager") == manager && r.applies() {
			if cede(r.fields(), before, after) {
				ceded = true
			}
			if len(r.fields()) == 0 {
				continue
			}
		}
		managedFields = append(managedFields, item)
	}
	return managedFields, ceded
}

// cede takes out of fields what before has and after has not.
func cede(fields fieldsV1, before, after any) (ceded bool) {
	for key := range maps.Clone(fields) {
		was, _, had := configured(before, key)
		is, _, has := configured(after, key)
		sub, _ := fields[key].(map[string]any)
		switch {
		case had && !has:
			delete(fields, key)
			ceded = true
		case had && len(sub) > 0 && cede(sub, was, is):
			ceded = true
			if len(sub) == 0 {
				delete(fields, key)
			}
		}
	}
	return ceded
}

// Without returns the managedFields of obj without what manager applied or wrote: what
// it owned is nobody's then, and stays as it is. See Cede for how to write it. An
// empty entry stands for none at all: the API server takes an empty list for one that
// was left out.
func Without(obj *unstructured.Unstructured, manager string) []any {
	list, _, _ := unstructured.NestedSlice(obj.Object, "metadata", "managedFields") // a copy
	list = slices.DeleteFunc(list, func(item any) bool {
		m, _ := item.(map[string]any)
		return m["manager"] == manager
	})
	if len(list) == 0 {
		return []any{map[string]any{}}
	}
	return list
}
