package ownership

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// SetBy adds to a selection the fields of an applied configuration that other managers own in obj, as far as one of the selections of the manager in
// within has them. The keys that identify an item of a list are left out. whole is the object after an apply of the configuration by manager: it has
// the keys with defaults that items of the configuration leave out.
func (s *Selection) SetBy(obj *unstructured.Unstructured, within map[string][]*Selection, configuration map[string]any, whole *unstructured.Unstructured, manager string) {
	if len(within) == 0 {
		return
	}
	ours := applied(whole, manager)
	for r := range records(obj) {
		if among := within[r.text("manager")]; len(among) > 0 {
			s.addSet(r.fields(), ours, among, &node{live: configuration}, nil)
		}
	}
}

// addSet adds the leaves of fields that configuration and within have. ours are its own fields. keys are the names of the fields that identify it
// in its list.
func (s *Selection) addSet(fields, ours fieldsV1, within []*Selection, configuration *node, keys []string) {
	for key := range fields {
		below, isOurs := ours[key].(map[string]any)
		child, token, found := configuration.configuredKey(key, isOurs)
		if !found || slices.Contains(keys, token) {
			continue
		}
		among := partsOf(within, token)
		if sub, _ := fields[key].(map[string]any); len(among) > 0 && len(sub) > 0 {
			s.at(token).addSet(sub, below, among, child, keysOf(key))
		} else if len(among) > 0 && among[0].whole {
			s.Add(token)
		}
	}
}

// keysOf are the names of the fields that key matches in an item of a list.
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

// Wholes returns a function that cuts a path into an applied configuration, names and indexes, at the first part that manager owns as a whole in obj:
// the fields of an atomic map or list have one owner together. It keeps the results for other paths, and is for one goroutine.
func Wholes(obj *unstructured.Unstructured, manager string, configuration map[string]any) func(path []string) []string {
	root := &ownedPart{fields: applied(obj, manager), at: &node{live: configuration}}
	return func(path []string) []string {
		part := root
		for i, token := range path {
			if part = part.child(token); part == nil {
				return path
			}
			if len(part.fields) == 0 {
				return path[:i+1]
			}
		}
		return path
	}
}

// ownedPart is a part of a configuration that a manager owns, with the fields that it owns there; none if it owns the part as a whole.
type ownedPart struct {
	fields fieldsV1
	at     *node
	// children are the parts in it by their tokens; nil until they are needed.
	children map[string]*ownedPart
}

// child returns the part at a token; nil if it is absent, or owned by others.
func (p *ownedPart) child(token string) *ownedPart {
	if p.children == nil {
		p.children = make(map[string]*ownedPart, len(p.fields))
		for _, key := range slices.Sorted(maps.Keys(p.fields)) {
			if at, name, found := p.at.configuredKey(key, true); found {
				sub, _ := p.fields[key].(map[string]any)
				p.children[name] = &ownedPart{fields: sub, at: at}
			}
		}
	}
	return p.children[token]
}

// ReleaseFields returns the managedFields of obj without the fields that manager releases: fields of the configuration that it
// applied before that the next one lacks. An apply alone would remove such fields from the object if they have no other owner.
// released reports whether any were released.
//
// The result is for a write of metadata.managedFields, as in
// k8s.io/client-go/util/csaupgrade.
func ReleaseFields(obj *unstructured.Unstructured, manager string, before, after map[string]any) (managedFields []any, released bool) {
	list, _, _ := unstructured.NestedSlice(obj.Object, "metadata", "managedFields") // a copy
	for _, item := range list {
		m, _ := item.(map[string]any)
		if r := record(m); r.appliedBy(manager) {
			if releaseFields(r.fields(), &node{live: before}, &node{live: after}) {
				released = true
			}
			if len(r.fields()) == 0 {
				continue
			}
		}
		managedFields = append(managedFields, item)
	}
	return managedFields, released
}

// releaseFields removes from fields the paths of before that after lacks.
func releaseFields(fields fieldsV1, before, after *node) (released bool) {
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		was, _, had := before.configuredKey(key, true)
		is, _, has := after.configuredKey(key, false)
		if !has && before.defaultedItems(key) == after.defaultedItems(key) { // otherwise the item itself is released
			is, _, has = after.configuredKey(key, true)
		}
		sub, _ := fields[key].(map[string]any)
		switch {
		case had && !has:
			delete(fields, key)
			released = true
		case had && len(sub) > 0 && releaseFields(sub, was, is):
			released = true
			if len(sub) == 0 {
				delete(fields, key)
			}
		}
	}
	return released
}

// Transfer returns the managedFields of obj as if manager to had applied the fields of manager from, beside its own fields.
// Other entries of from are dropped. ReleaseFields describes how to write the result.
func Transfer(obj *unstructured.Unstructured, from, to string) []any {
	list, _, _ := unstructured.NestedSlice(obj.Object, "metadata", "managedFields") // a copy
	var given record
	list = slices.DeleteFunc(list, func(item any) bool {
		m, _ := item.(map[string]any)
		r := record(m)
		if r.text("manager") != from {
			return r.text("manager") == to && r.applies()
		}
		if r.applies() {
			given = r
		}
		return true
	})
	if given == nil {
		return Without(obj, from)
	}
	given["manager"] = to
	given["fieldsV1"] = merged([]fieldsV1{given.fields(), applied(obj, to)})
	return append(list, map[string]any(given))
}

// Shared returns the managedFields of obj as if manager to had written the fields that manager from applied, too, by an operation. Fields
// that except names, as paths of names, stay with from alone. changed is false if from applied nothing, or to has such an entry already.
// ReleaseFields describes the write of the result.
func Shared(obj *unstructured.Unstructured, from, to string, operation metav1.ManagedFieldsOperationType, except ...[]string) (managedFields []any, changed bool) {
	list, _, _ := unstructured.NestedSlice(obj.Object, "metadata", "managedFields") // a copy
	var given record
	for r := range recordsOf(list) {
		switch {
		case r.text("manager") == to && r.text("operation") == string(operation) && r.text("subresource") == "":
			return list, false
		case r.appliedBy(from):
			given = runtime.DeepCopyJSON(r)
		}
	}
	if given == nil {
		return list, false
	}
	given["manager"], given["operation"] = to, string(operation)
	for _, path := range except {
		names := slices.Clone(path)
		for i := range names {
			names[i] = "f:" + names[i]
		}
		unstructured.RemoveNestedField(given.fields(), names...)
	}
	return append(list, map[string]any(given)), true
}

// Without returns the managedFields of obj without the entries of manager. Its fields keep their
// values and are unmanaged. See ReleaseFields for how to write the result. If this removes all
// entries, the result has one empty entry, because the API server ignores an empty list.
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
