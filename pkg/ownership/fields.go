package ownership

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// fieldsV1 is the tree of a managedFields entry as an unstructured object has
// it: "f:name" is a field of a map, `k:{"name":"x"}` an item of a list by its
// keys, `v:"x"` an item of a set, "i:0" an item of a list by its index, and "."
// the node itself. The format is that of
// sigs.k8s.io/structured-merge-diff/v6/fieldpath.
type fieldsV1 = map[string]any

// entry is one entry of managedFields.
type entry struct {
	manager     string
	operation   string
	subresource string
	time        time.Time
	fields      fieldsV1
}

// entries reads managedFields. It reads the unstructured content as it is:
// going through metav1.ManagedFieldsEntry would encode and decode each tree.
func entries(obj *unstructured.Unstructured) []entry {
	metadata, _ := obj.Object["metadata"].(map[string]any)
	list, _ := metadata["managedFields"].([]any)
	all := make([]entry, 0, len(list))
	for _, item := range list {
		m, ok := item.(map[string]any)
		if !ok {
			continue
		}
		fields, ok := m["fieldsV1"].(map[string]any)
		if !ok {
			continue
		}
		e := entry{fields: fields}
		e.manager, _ = m["manager"].(string)
		e.operation, _ = m["operation"].(string)
		e.subresource, _ = m["subresource"].(string)
		if text, ok := m["time"].(string); ok {
			e.time, _ = time.Parse(time.RFC3339, text) // zero when unreadable: the oldest
		}
		all = append(all, e)
	}
	return all
}

// isApply says whether e is what manager applied to the object itself.
func (e entry) isApply(manager string) bool {
	return e.manager == manager && e.operation == "Apply" && e.subresource == ""
}

// applied is the tree of what manager applied to obj; nil if it has none.
func applied(obj *unstructured.Unstructured, manager string) fieldsV1 {
	for _, e := range entries(obj) {
		if e.isApply(manager) {
			return e.fields
		}
	}
	return nil
}

// Managers lists the field managers that applied obj and whose name begins
// with prefix, in the order of managedFields.
func Managers(obj *unstructured.Unstructured, prefix string) []string {
	var names []string
	for _, e := range entries(obj) {
		if strings.HasPrefix(e.manager, prefix) && e.isApply(e.manager) {
			names = append(names, e.manager)
		}
	}
	return names
}

// descend returns what live has at one key of a fieldsV1 tree.
func descend(live any, key string) (any, bool) {
	if name, ok := strings.CutPrefix(key, "f:"); ok {
		m, _ := live.(map[string]any)
		v, found := m[name]
		return v, found
	}
	list, ok := live.([]any)
	if !ok {
		return nil, false
	}
	element, err := fieldpath.DeserializePathElement(key)
	if err != nil {
		return nil, false
	}
	switch {
	case element.Index != nil:
		if *element.Index >= 0 && *element.Index < len(list) {
			return list[*element.Index], true
		}
	case element.Value != nil:
		for _, item := range list {
			if value.Equals(value.NewValueInterface(item), *element.Value) {
				return item, true
			}
		}
	case element.Key != nil:
		for _, item := range list {
			if hasKeys(item, *element.Key) {
				return item, true
			}
		}
	}
	return nil, false
}

// hasKeys says whether item is the item of an associative list that keys names.
// A key that item leaves out has its default; servers write defaulted keys into
// the object, so a missing one matches nothing but null.
func hasKeys(item any, keys value.FieldList) bool {
	m, ok := item.(map[string]any)
	if !ok {
		return false
	}
	for _, field := range keys {
		got, found := m[field.Name]
		if !found && field.Value.IsNull() {
			continue
		}
		if !found || !value.Equals(value.NewValueInterface(got), field.Value) {
			return false
		}
	}
	return true
}
