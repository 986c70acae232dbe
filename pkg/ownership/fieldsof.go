package ownership

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Field is a field or list item that a manager applied to an object.
type Field struct {
	// Path has the notation of Change.Path.
	Path string
	// Tokens lead to it in the configuration: names of fields and indexes of lists. Nil if the
	// configuration lacks it.
	Tokens []string
}

// Pointer is the path as a JSON pointer (RFC 6901) into the configuration; empty without Tokens.
func (f Field) Pointer() string {
	var b strings.Builder
	for _, token := range f.Tokens {
		b.WriteString("/" + escapePointer.Replace(token))
	}
	return b.String()
}

// FieldsOf lists the fields that manager applied to obj, and the fields above them, in the order of the paths. configuration
// is the applied one, and nil if it is unknown. known is the decision about the object before FieldsOf adds obj to it.
func FieldsOf(obj *unstructured.Unstructured, manager string, configuration map[string]any, known Disclosure) (leaves, above []Field) {
	ours := setOf(applied(obj, manager))
	return fieldsIn(ours, ours, configuration, known.With(obj))
}

// FieldsOfEntry lists the fields of an entry of the managedFields of obj, in the order of the paths: only leaves. Tokens
// lead into configuration, which manager applied, and which is nil if it is unknown.
func FieldsOfEntry(obj *unstructured.Unstructured, entry metav1.ManagedFieldsEntry, manager string, configuration map[string]any, known Disclosure) []Field {
	only := &unstructured.Unstructured{Object: map[string]any{}}
	entry.Operation, entry.Subresource = metav1.ManagedFieldsOperationApply, ""
	only.SetManagedFields([]metav1.ManagedFieldsEntry{entry})
	leaves, _ := fieldsIn(setOf(applied(only, entry.Manager)), setOf(applied(obj, manager)), configuration, known.With(obj))
	return leaves
}

// fieldsIn lists the fields of a set, and the fields above them, in the order of the paths. ours are the fields of the manager that
// applied configuration.
func fieldsIn(set, ours *fieldpath.Set, configuration map[string]any, known Disclosure) (leaves, above []Field) {
	withheld := known.Withholds()
	var walk func(set, ours *fieldpath.Set, at *node, path *step, tokens []string)
	walk = func(set, ours *fieldpath.Set, at *node, path *step, tokens []string) {
		for _, element := range elements(set) {
			p := path.child(element)
			field := Field{Path: p.text(withheld)}
			child, token, found := at.configuredBy(element, ours)
			if found {
				field.Tokens = append(slices.Clone(tokens), token)
			}
			below, nested := set.Children.Get(element)
			if !nested {
				leaves = append(leaves, field)
				continue
			}
			above = append(above, field)
			walk(below, ours.WithPrefix(element), child, p, field.Tokens)
		}
	}
	walk(set, ours, &node{live: configuration}, &step{}, nil)
	return leaves, above
}

// Writer is a field manager that owns a field, by one of its entries in managedFields.
type Writer struct {
	Manager string
	// Operation is Apply or Update.
	Operation string
	// Subresource through which it wrote; empty for the object itself.
	Subresource string
	// Time of its last write, at the API server's resolution of a second.
	Time time.Time
}

// Writers are the owners of the fields of an object.
type Writers struct {
	// owners by the path of the field in the object; see pathKey. atomic are the owners of the fields below, too, because they
	// own it as a whole.
	owners, atomic map[string][]Writer
}

// WritersOf returns who owns which field of an object.
func WritersOf(obj *unstructured.Unstructured) Writers {
	w := Writers{owners: map[string][]Writer{}, atomic: map[string][]Writer{}}
	inner := map[string]bool{}
	for r := range records(obj) {
		writer := Writer{Manager: r.text("manager"), Operation: r.text("operation"), Subresource: r.text("subresource"), Time: r.time()}
		var walk func(set *fieldpath.Set, at *node, tokens []string)
		walk = func(set *fieldpath.Set, at *node, tokens []string) {
			for _, element := range elements(set) {
				child, token, found := at.configured(element, false)
				if !found {
					continue // the manager wrote it through another version of the kind
				}
				path := append(slices.Clone(tokens), token)
				key := pathKey(path)
				if set.Members.Has(element) {
					w.owners[key] = append(w.owners[key], writer)
				}
				if below, nested := set.Children.Get(element); nested {
					inner[key] = true
					walk(below, child, path)
				}
			}
		}
		walk(setOf(r.fields()), &node{live: obj.Object}, nil)
	}
	for key, writers := range w.owners {
		if !inner[key] {
			w.atomic[key] = writers
		}
	}
	return w
}

// Of returns the owners of the field at a path of names of fields and indexes of lists.
func (w Writers) Of(path ...string) []Writer {
	if writers := w.owners[pathKey(path)]; writers != nil {
		return writers
	}
	for n := len(path) - 1; n > 0; n-- {
		if writers := w.atomic[pathKey(path[:n])]; writers != nil {
			return writers
		}
	}
	return nil
}

// OwnsWhole reports whether a manager owns the field as a whole, including the fields below.
func (w Writers) OwnsWhole(path ...string) bool { return w.atomic[pathKey(path)] != nil }

// pathKey is a path as the key of a map.
func pathKey(path []string) string { return Field{Tokens: path}.Pointer() }
