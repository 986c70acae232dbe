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

// Writers has the owners of a field, and the Writers of the fields below. The Writers of an object have no owners.
type Writers struct {
	owners []Writer
	// below are the fields below by their names or indexes; nil if the owners own those, too.
	below map[string]*Writers
}

// WritersOf returns who owns which field of an object.
func WritersOf(obj *unstructured.Unstructured) *Writers {
	all := &Writers{below: map[string]*Writers{}}
	for r := range records(obj) {
		writer := Writer{Manager: r.text("manager"), Operation: r.text("operation"), Subresource: r.text("subresource"), Time: r.time()}
		var walk func(set *fieldpath.Set, at *node, above *Writers)
		walk = func(set *fieldpath.Set, at *node, above *Writers) {
			for _, element := range elements(set) {
				child, token, found := at.configured(element, false)
				if !found {
					continue // the manager wrote it through another version of the kind
				}
				w := above.below[token]
				if w == nil {
					w = &Writers{}
					above.below[token] = w
				}
				if set.Members.Has(element) {
					w.owners = append(w.owners, writer)
				}
				if below, nested := set.Children.Get(element); nested {
					if w.below == nil {
						w.below = map[string]*Writers{}
					}
					walk(below, child, w)
				}
			}
		}
		walk(setOf(r.fields()), &node{live: obj.Object}, all)
	}
	return all
}

// at returns the field at a path, or the nearest one above it, with the length of its path.
func (w *Writers) at(path []string) (*Writers, int) {
	for n, token := range path {
		below := w.below[token]
		if below == nil {
			return w, n
		}
		w = below
	}
	return w, len(path)
}

// Of returns the owners of the field at a path of names of fields and indexes of lists.
func (w *Writers) Of(path ...string) []Writer {
	if found, n := w.at(path); n == len(path) || found.below == nil {
		return found.owners
	}
	return nil
}

// Whole returns the path of the field above a path that a manager owns as a whole, including the fields below; nil if there is none.
func (w *Writers) Whole(path ...string) []string {
	if found, n := w.at(path); n < len(path) && found.below == nil && found.owners != nil {
		return path[:n]
	}
	return nil
}
