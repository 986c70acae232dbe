package parts

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/manifest"
)

// Text is a text with objects, such as a file.
type Text struct {
	// Name is the name in messages.
	Name string
	Text string
}

// Part is a part of a manifest that fits into one ConfigMap, or into one Secret if it is sensitive.
type Part struct {
	Text      string
	Sensitive bool
}

// Manifest is a manifest in parts.
type Manifest struct {
	// Inline is the text for spec.manifest; empty if all objects are in Parts.
	Inline string
	// Parts are in the order of their objects. The sensitive ones are the last.
	Parts []Part
	// Objects are all objects, in the order of the texts.
	Objects []manifest.Object
	// Remarks are messages to the user about the texts.
	Remarks []string
}

// Options configure [Cut]. The zero value is usable.
type Options struct {
	// Namespace is the namespace of objects that name none. Two objects are the same object if one names it and the other names none.
	Namespace string
	// MaxInline is the size of the longest text for spec.manifest. Defaults to 128 KiB: a longer manifest takes a share of the memory
	// of the operator that has to be free first.
	MaxInline int
	// FullPart is the size of the text that a part has at most if it has several documents. Defaults to 900,000.
	FullPart int
	// MaxPart is the size of the longest text of one document. Defaults to 1 MiB, as a ConfigMap and a Secret have, less 1 KiB.
	MaxPart int
	// MaxTotal is the size of all texts together. Defaults to 8 MiB, as spec.manifestFrom has.
	MaxTotal int
}

func (o Options) withDefaults() Options {
	o.MaxInline, o.FullPart = cmp.Or(o.MaxInline, 128<<10), cmp.Or(o.FullPart, 900_000)
	o.MaxPart, o.MaxTotal = cmp.Or(o.MaxPart, 1<<20-1<<10), cmp.Or(o.MaxTotal, 8<<20)
	return o
}

// document is the text of a document with its objects.
type document struct {
	text      string
	objects   []manifest.Object
	sensitive bool
}

// Cut cuts the manifest that texts are together. Errors about the texts are of type manifest.Errors and quote no value.
//
// An object that is there twice with the same content counts once; with another content it is an error. A document is divided into
// its objects if it is a list with sensitive and other objects, with an object that counts once, or too long. An object that is too
// long for a part as YAML is written as JSON, without its comments.
func Cut(texts []Text, o Options) (*Manifest, error) {
	o = o.withDefaults()
	documents, m, err := read(texts, o)
	if err != nil {
		return nil, err
	}
	divided, err := divide(documents, m, o)
	if err != nil {
		return nil, err
	}
	open := slices.DeleteFunc(slices.Clone(divided), func(d document) bool { return d.sensitive })
	closed := slices.DeleteFunc(slices.Clone(divided), func(d document) bool { return !d.sensitive })
	if len(texts) == 1 && len(divided) == len(documents) && len(closed) == 0 && len(texts[0].Text) <= o.MaxInline && len(m.Remarks) == 0 {
		m.Inline = texts[0].Text // with the comments between its documents
	} else if inline := join(open); len(inline) <= o.MaxInline {
		m.Inline = inline
	} else {
		m.Parts = pack(open, false, o)
	}
	m.Parts = append(m.Parts, pack(closed, true, o)...)
	return m, m.verify(o)
}

// read reads the documents of all texts.
func read(texts []Text, o Options) ([]document, *Manifest, error) {
	var all []document
	var errs manifest.Errors
	m, values, size := &Manifest{}, 0, 0
	for _, text := range texts {
		if size += len(text.Text); size > o.MaxTotal {
			return nil, nil, fmt.Errorf("%s: the manifest has %d bytes up to here, and the limit is %d: make several VidraResources of it", text.Name, size, o.MaxTotal)
		}
		found, err := manifest.Documents(text.Text, manifest.Options{Source: text.Name, MaxBytes: o.MaxTotal, Objects: len(m.Objects), Values: values})
		if problems, are := errors.AsType[manifest.Errors](err); are {
			errs = append(errs, problems...)
		} else if err != nil {
			return nil, nil, err
		}
		for _, doc := range found {
			for _, object := range doc.Objects {
				values += object.Values
			}
			m.Objects = append(m.Objects, doc.Objects...)
			all = append(all, document{text: doc.Text, objects: doc.Objects})
		}
	}
	if len(errs) > 0 {
		return nil, nil, errs
	}
	return all, m, nil
}

// key identifies an object of a manifest.
type key struct {
	schema.GroupKind

	namespace, name string
}

// divide returns documents that fit into a part, with sensitive objects alone or none, and each object once.
func divide(documents []document, m *Manifest, o Options) ([]document, error) {
	var divided []document
	var errs manifest.Errors
	first, all := map[key]manifest.Object{}, m.Objects
	m.Objects = make([]manifest.Object, 0, len(all))
	for _, doc := range documents {
		var left []manifest.Object
		for _, object := range doc.objects {
			id := key{object.GroupVersionKind().GroupKind(), object.GetNamespace(), object.GetName()}
			if id.namespace == "" {
				id.namespace = o.Namespace
			}
			other, twice := first[id]
			switch {
			case !twice:
				first[id] = object
				left = append(left, object)
			case equal(other, object, id.namespace):
				m.Remarks = append(m.Remarks, fmt.Sprintf("%s: %s is also at %s with the same content: it counts once", object.Position, nameOf(object), other.Position))
			default:
				errs = append(errs, &manifest.Error{
					Position: object.Position, GVK: object.GroupVersionKind(), Namespace: object.GetNamespace(), Name: object.GetName(),
					Message: fmt.Sprintf("the manifest holds this object twice with different content, first at %s: remove one", other.Position),
				})
			}
		}
		m.Objects = append(m.Objects, left...)
		found, err := doc.divide(left, o)
		if err != nil {
			return nil, err
		}
		divided = append(divided, found...)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return divided, nil
}

// divide returns the document with the objects that are left, as one or as several documents.
func (d document) divide(left []manifest.Object, o Options) ([]document, error) {
	n := 0
	for _, object := range left {
		if Sensitive(object.Unstructured) {
			n++
		}
	}
	if len(left) == len(d.objects) && (n == 0 || n == len(left)) && len(d.text) <= o.MaxPart {
		return []document{{d.text, left, n > 0}}, nil
	}
	var divided []document
	for _, object := range left {
		text := d.text
		if len(d.objects) > 1 {
			encoded, err := yaml.Marshal(object.Object)
			if err != nil {
				return nil, fmt.Errorf("%s: %s cannot be encoded", object.Position, nameOf(object)) // the error may quote it
			}
			text = string(encoded)
		}
		if len(text) > o.MaxPart {
			encoded, err := encode(object)
			if err != nil {
				return nil, err
			}
			if text = encoded; len(text) > o.MaxPart {
				return nil, manifest.Errors{{
					Position: object.Position, GVK: object.GroupVersionKind(), Namespace: object.GetNamespace(), Name: object.GetName(),
					Message: fmt.Sprintf("the object has %d bytes as JSON, and a ConfigMap or Secret has room for %d: shorten it, for example by the descriptions of a "+
						"CustomResourceDefinition, or apply it by another tool and remove it from the manifest", len(text), o.MaxPart),
				}}
			}
		}
		divided = append(divided, document{text, []manifest.Object{object}, Sensitive(object.Unstructured)})
	}
	return divided, nil
}

// pack returns the parts for documents, in their order.
func pack(documents []document, sensitive bool, o Options) []Part {
	var packed []Part
	var texts []string
	size := 0
	flush := func() {
		if len(texts) > 0 {
			packed = append(packed, Part{Text: manifest.Join(texts...), Sensitive: sensitive})
		}
		texts, size = nil, 0
	}
	for _, doc := range documents {
		const separator = len("...\n---\n\n")
		if size+len(doc.text)+separator > o.FullPart {
			flush()
		}
		texts, size = append(texts, doc.text), size+len(doc.text)+separator
	}
	flush()
	return packed
}

// join returns documents as one text.
func join(documents []document) string {
	texts := make([]string, 0, len(documents))
	for _, doc := range documents {
		texts = append(texts, doc.text)
	}
	return manifest.Join(texts...)
}

// verify requires that the parts have the objects of the manifest.
func (m *Manifest) verify(o Options) error {
	var open, closed []manifest.Object
	for _, object := range m.Objects {
		if Sensitive(object.Unstructured) {
			closed = append(closed, object)
		} else {
			open = append(open, object)
		}
	}
	want, have := slices.Concat(open, closed), []manifest.Object{}
	for _, part := range slices.Concat([]Part{{Text: m.Inline}}, m.Parts) {
		found, err := manifest.Parse(part.Text, manifest.Options{MaxBytes: o.MaxTotal})
		if err != nil {
			return fmt.Errorf("the manifest cannot be cut into parts: %w", err)
		}
		have = append(have, found...)
	}
	if !slices.EqualFunc(want, have, func(a, b manifest.Object) bool { return equal(a, b, a.GetNamespace()) }) {
		return errors.New("the manifest cannot be cut into parts: the parts have other objects than the files: end each file with a line break; if that changes nothing, this is a fault of Vidra, please report it")
	}
	return nil
}

// equal reports whether two objects have the same content in a namespace.
func equal(a, b manifest.Object, namespace string) bool {
	if a.GetNamespace() != b.GetNamespace() {
		a.Unstructured, b.Unstructured = a.DeepCopy(), b.DeepCopy()
		a.SetNamespace(namespace)
		b.SetNamespace(namespace)
	}
	left, errLeft := encode(a)
	right, errRight := encode(b)
	return errLeft == nil && errRight == nil && left == right
}

// encode returns an object as compact JSON, with its keys in order.
func encode(object manifest.Object) (string, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(object.Object); err != nil {
		return "", fmt.Errorf("%s: %s cannot be encoded", object.Position, nameOf(object)) // the error may quote it
	}
	return text.String(), nil
}

func nameOf(object manifest.Object) string {
	return display.Name(object.GetKind(), object.GetNamespace(), object.GetName())
}
