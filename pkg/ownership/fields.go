package ownership

import (
	"iter"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// fieldsV1 is the tree of a managedFields entry as an unstructured object has it: "f:name" is a field of a map,
// `k:{"name":"x"}` an item of a list by its keys, `v:"x"` an item of a set, "i:0" an item of a list by its index, and "." the
// node itself. The format is defined in sigs.k8s.io/structured-merge-diff/v6/fieldpath.
type fieldsV1 = map[string]any

// record is an entry of managedFields as an unstructured object has it. Converting
// it to metav1.ManagedFieldsEntry would encode and decode its tree.
type record map[string]any

// records are the valid entries of managedFields.
func records(obj *unstructured.Unstructured) iter.Seq[record] {
	metadata, _ := obj.Object["metadata"].(map[string]any)
	list, _ := metadata["managedFields"].([]any)
	return recordsOf(list)
}

// recordsOf are the valid entries of a list of managedFields.
func recordsOf(list []any) iter.Seq[record] {
	return func(yield func(record) bool) {
		for _, item := range list {
			if r, ok := item.(map[string]any); ok && !yield(r) {
				return
			}
		}
	}
}

// Recorded reports whether obj has managedFields.
func Recorded(obj *unstructured.Unstructured) bool {
	for range records(obj) {
		return true
	}
	return false
}

// text is a string of the entry; empty if it lacks that name.
func (r record) text(name string) string {
	s, _ := r[name].(string)
	return s
}

// fields is the tree of the entry, or nil.
func (r record) fields() fieldsV1 {
	fields, _ := r["fieldsV1"].(map[string]any)
	return fields
}

// time is when the manager last wrote: zero, older than all others, if the entry lacks a time.
func (r record) time() time.Time {
	t, err := time.Parse(time.RFC3339, r.text("time"))
	if err != nil {
		return time.Time{}
	}
	return t
}

// applies reports whether the entry comes from an apply to the object itself. Its apiVersion is irrelevant: the API
// server leaves it out of the identity of an applier, so that an apply through another version replaces the entry
// (k8s.io/apimachinery/pkg/util/managedfields/internal, BuildManagerIdentifier).
func (r record) applies() bool {
	return r.text("operation") == string(metav1.ManagedFieldsOperationApply) && r.text("subresource") == "" && r.fields() != nil
}

// appliedBy reports whether the entry comes from an apply of a manager to the object itself.
func (r record) appliedBy(manager string) bool { return r.text("manager") == manager && r.applies() }

// appliedWith is appliedBy for the managers with a prefix.
func (r record) appliedWith(prefix string) bool {
	return strings.HasPrefix(r.text("manager"), prefix) && r.applies()
}

// appendOthers appends the trees of all entries of obj except those that manager applied.
func appendOthers(trees []fieldsV1, obj *unstructured.Unstructured, manager string) []fieldsV1 {
	for r := range records(obj) {
		if fields := r.fields(); fields != nil && !r.appliedBy(manager) {
			trees = append(trees, fields)
		}
	}
	return trees
}

// applied is the tree that manager applied to obj, or nil. Present API servers store one entry per applier, see
// applies; of several, all would be ours.
func applied(obj *unstructured.Unstructured, manager string) fieldsV1 {
	var first fieldsV1
	var more []fieldsV1
	for r := range records(obj) {
		switch {
		case !r.appliedBy(manager):
		case first == nil:
			first = r.fields()
		default:
			more = append(more, r.fields())
		}
	}
	if more == nil {
		return first
	}
	return merged(append(more, first))
}

// setOf is the readable part of a tree as a set. Encoding the tree again, for the parser of fieldpath, would take three times
// as long.
func setOf(fields fieldsV1) *fieldpath.Set {
	type child struct {
		element fieldpath.PathElement
		below   fieldsV1
	}
	children := make([]child, 0, len(fields))
	for key, sub := range fields {
		if element, err := fieldpath.DeserializePathElement(key); err == nil { // "." is none
			below, _ := sub.(map[string]any)
			children = append(children, child{element, below})
		}
	}
	slices.SortFunc(children, func(a, b child) int { return a.element.Compare(b.element) }) // each goes to the end of the set
	set := fieldpath.NewSet()
	for _, c := range children {
		_, self := c.below["."]
		below := setOf(c.below)
		if self || below.Empty() {
			set.Members.Insert(c.element)
		}
		if !below.Empty() {
			*set.Children.Descend(c.element) = *below
		}
	}
	return set
}

// Managers lists the field managers that applied obj and whose name begins
// with prefix, in the order of managedFields.
func Managers(obj *unstructured.Unstructured, prefix string) []string {
	var names []string
	seen := map[string]bool{}
	for r := range records(obj) {
		if name := r.text("manager"); r.appliedWith(prefix) && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

// LastApplied is when manager last applied another configuration to obj; zero if it applied none, or managedFields have no time.
func LastApplied(obj *unstructured.Unstructured, manager string) time.Time {
	var last time.Time
	for r := range records(obj) {
		if at := r.time(); r.appliedBy(manager) && at.After(last) {
			last = at
		}
	}
	return last
}

// AnnotationManagers lists the field managers that set an annotation of obj, by any operation, except the name that the API
// server makes up.
func AnnotationManagers(obj *unstructured.Unstructured, key string) []string {
	return managersOf(obj, "f:metadata", "f:annotations", "f:"+key)
}

// LabelManagers is AnnotationManagers for a label.
func LabelManagers(obj *unstructured.Unstructured, key string) []string {
	return managersOf(obj, "f:metadata", "f:labels", "f:"+key)
}

// managersOf lists the field managers that own a path of obj, except the name that the API server makes up.
func managersOf(obj *unstructured.Unstructured, path ...string) []string {
	var names []string
	for r := range records(obj) {
		if name := r.text("manager"); r.owns(path...) && name != beforeFirstApply {
			names = append(names, name)
		}
	}
	return names
}

// OnlyLabelledBy reports whether manager is the sole owner of a label of obj.
func OnlyLabelledBy(obj *unstructured.Unstructured, key, manager string) bool {
	for r := range records(obj) {
		if r.text("manager") != manager && r.owns("f:metadata", "f:labels", "f:"+key) {
			return false
		}
	}
	return true
}

// owns reports whether the tree of the entry has a path.
func (r record) owns(path ...string) bool {
	fields := any(r.fields())
	for _, step := range path {
		below, _ := fields.(map[string]any)
		fields = below[step]
	}
	return fields != nil
}
