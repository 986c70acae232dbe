package manifest

import (
	"fmt"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// DefaultMaxBytes is the size limit of a manifest unless [Options] sets
// another: 1.5 MiB, etcd's default limit for one request (--max-request-bytes).
// No object that holds a manifest, and none in it, can be larger.
const DefaultMaxBytes = 1_572_864

// Limits of a manifest. Errors name the object and the line that exceed one.
const (
	// MaxObjects is how many objects a manifest holds at most. The status of a
	// VidraResource has no room for more.
	MaxObjects = 5_000
	// MaxValues is how many values, keys included, one object holds at most. The largest
	// CustomResourceDefinitions have about 50,000.
	MaxValues = 100_000
	// MaxTotalValues is how many values all objects of a manifest hold together at most.
	MaxTotalValues = 500_000
)

// Position is where an object stands in the text of its manifest.
type Position struct {
	// Source is the name that Options gave the text; empty for the only one.
	Source string
	// Document counts the documents from 1, empty ones included, the way
	// a `---` separates them. Comments before the first `---` are no document.
	Document int
	// Line is the first line of the object (or list item), from 1.
	Line int
	// Item is the object's index, from 1, in the list that holds it directly.
	// It is 0 for an object outside of a list.
	Item int
}

// Object is one object of a manifest: its content, and where it stands.
type Object struct {
	*unstructured.Unstructured

	// Position is where the object stands in the manifest.
	Position Position
	// Values is how many values the object holds, keys included.
	Values int
}

// Options are the limits that Parse keeps. The zero value is useful.
type Options struct {
	// Source is the name of the text, where there are several: positions begin with it.
	Source string
	// MaxBytes is the largest text that is read. YAML aliases may add at most as much again
	// when they are expanded. Defaults to DefaultMaxBytes.
	//
	// Parse takes up to about 140 times the size of the text in memory until it returns:
	// see [Weight].
	MaxBytes int
	// Objects and Values are how many the parts of the same manifest hold that were read
	// before: they count towards MaxObjects and MaxTotalValues.
	Objects, Values int
	// Artifact reports that the text comes from an artifact: Secrets and ConfigMaps with values that SOPS encrypted are an error then, as Flux would
	// decrypt them. Elsewhere another controller reads them encrypted.
	Artifact bool
}

// Parse reads the objects of a manifest and returns them in the manifest's order; see [Sort] for the order of their apply.
//
// The text holds any number of documents: YAML, separated by `---`, or JSON,
// also several JSON objects one after the other, in any mixture. Lists (a v1
// List, or any kind that ends in List and has items) are replaced by their
// items, nested ones too; items of a typed list such as ConfigMapList may leave
// out apiVersion and kind, as they do in the API server's own responses. Empty
// documents are skipped, and a text without an object is no error: the result
// is empty then, not nil.
//
// Metadata that the API server writes and that cannot be applied is removed, so
// that the output of `kubectl get -o yaml` is a manifest: managedFields (refused
// in an apply), resourceVersion and uid (preconditions that fail on any other
// object), creationTimestamp, deletionTimestamp, deletionGracePeriodSeconds,
// generation and selfLink. A status stays: the API server ignores it for
// kinds with a status subresource, and for a custom resource without one it is
// a field like any other.
//
// An error is always of type [Errors], and then no object is returned. Two
// objects with the same group, kind, namespace and name are an error, also when
// their versions differ. Parse reads on after an unreadable document, to report several in one
// go, and gives up after the tenth error.
func Parse(text string, opts Options) ([]Object, error) {
	r := newReader(opts)
	r.seen = inventory{}
	if _, err := r.read(text); err != nil {
		return nil, err
	}
	return r.objects, nil
}

// reader gathers the objects and the errors of one manifest.
type reader struct {
	opts    Options
	conv    *converter
	objects []Object
	// seen has the objects so far; nil where an object may be in the manifest twice.
	seen inventory
	errs Errors
	// over reports that the manifest has too many objects, so that the rest is skipped.
	over bool
}

// newReader returns a reader that keeps the limits of opts. Aliases may add
// opts.MaxBytes to the manifest.
func newReader(opts Options) *reader {
	if opts.MaxBytes <= 0 {
		opts.MaxBytes = DefaultMaxBytes
	}
	return &reader{opts: opts, conv: newConverter(opts), objects: []Object{}}
}

// read reads a text and returns its documents with objects. Its error is of type Errors.
func (r *reader) read(text string) ([]Document, error) {
	if len(text) > r.opts.MaxBytes {
		return nil, Errors{{Position: Position{Source: r.opts.Source}, Message: fmt.Sprintf(
			"the manifest has %d bytes, and the limit is %d: split it in several", len(text), r.opts.MaxBytes)}}
	}
	var documents []Document
	for _, doc := range split(text) {
		if r.full() {
			break
		}
		before := len(r.objects)
		r.document(doc)
		if len(r.objects) > before {
			documents = append(documents, Document{Text: doc.text, Objects: r.objects[before:]})
		}
	}
	for _, err := range r.errs {
		err.Position.Source = r.opts.Source
	}
	if len(r.errs) > 0 {
		return nil, r.errs
	}
	for i := range r.objects {
		r.objects[i].Position.Source = r.opts.Source
	}
	// The objects may have been moved while their number grew.
	rest := r.objects
	for i := range documents {
		n := len(documents[i].Objects)
		documents[i].Objects, rest = rest[:n:n], rest[n:]
	}
	return documents, nil
}

// full reports whether there are maxErrors errors, or a limit is exceeded.
func (r *reader) full() bool {
	return r.over || r.conv.total > MaxTotalValues || len(r.errs) >= maxErrors
}

// document reads one document and adds its objects or its errors.
func (r *reader) document(doc document) {
	roots, err := doc.parse()
	if err != nil {
		at := Position{Document: doc.number, Line: doc.line}
		r.errs = append(r.errs, guessIdentity(doc.text).fault(at, err))
		return
	}
	for _, root := range roots {
		if !isNull(root) {
			r.node(root, Position{Document: doc.number, Line: root.Line}, identity{}, 0)
		}
	}
}

// node adds the object, or the objects of the list, that a node describes.
// Without an apiVersion and a kind of its own an object takes the inherited
// ones.
func (r *reader) node(n *yaml.Node, at Position, inherited identity, depth int) {
	if r.full() {
		return
	}
	r.conv.values = 0
	target, leave, err := r.conv.enter(n, depth)
	if err != nil {
		r.errs = append(r.errs, identify(target, inherited).fault(at, err))
		return
	}
	defer leave()

	if isList(target) {
		r.list(target, at, depth)
		return
	}
	r.object(target, at, inherited, depth)
}

// list adds the objects of a list. The list itself is checked like any mapping,
// so that a key given twice does not hide half of the items.
func (r *reader) list(n *yaml.Node, at Position, depth int) {
	id := identify(n, identity{})
	if _, err := r.conv.value(withoutItems(n), depth); err != nil {
		r.errs = append(r.errs, id.fault(at, err))
		return
	}
	items := child(n, "items")
	if items == nil {
		r.errs = append(r.errs, id.fault(at, faultf(n.Line, `the list has no "items"`)))
		return
	}
	target, leave, err := r.conv.enter(items, depth+1)
	if err != nil {
		r.errs = append(r.errs, id.fault(at, err))
		return
	}
	defer leave()

	if target.Kind != yaml.SequenceNode && !isNull(target) {
		r.errs = append(r.errs, id.fault(at, faultf(items.Line, `"items" must be a list, not %s`, describe(target))))
		return
	}
	for i, item := range target.Content {
		r.node(item, Position{Document: at.Document, Line: item.Line, Item: i + 1}, id.itemType(), depth+2)
	}
}

// object adds the object that a node describes.
func (r *reader) object(n *yaml.Node, at Position, inherited identity, depth int) {
	if r.opts.Objects+len(r.objects) >= MaxObjects {
		r.over = true
		r.errs = append(r.errs, identify(n, inherited).fault(at, faultf(0,
			"the manifest holds more than %d objects, and this is the first one too many: split it in several", MaxObjects)))
		return
	}
	u, err := r.conv.object(n, inherited, depth)
	if err != nil {
		r.errs = append(r.errs, identify(n, inherited).fault(at, err))
		return
	}
	obj := Object{Unstructured: u, Position: at, Values: r.conv.values}
	if r.seen != nil {
		if err := r.seen.add(obj); err != nil {
			r.errs = append(r.errs, err)
			return
		}
	}
	r.objects = append(r.objects, obj)
}
