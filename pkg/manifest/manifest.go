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

// Position says where an object stands in the text of its manifest.
type Position struct {
	// Source is the name that Options gave the text; empty for the only one.
	Source string
	// Document counts the documents from 1, empty ones included, the way
	// a `---` separates them. Comments before the first `---` are no document.
	Document int
	// Line is the line, from 1, on which the object (or the list item) begins.
	Line int
	// Item is the object's index, from 1, in the list that holds it directly.
	// It is 0 for an object that is not in a list.
	Item int
}

// Object is one object of a manifest: its content, and where it stands.
type Object struct {
	*unstructured.Unstructured

	// Position is where the object stands in the manifest.
	Position Position
}

// Options are the limits that Parse keeps. The zero value is useful.
type Options struct {
	// Source names the text where there are several, for people: positions begin
	// with it.
	Source string
	// MaxBytes is the largest text that is read. YAML aliases may add as much
	// again when they are expanded, and no more. Defaults to DefaultMaxBytes.
	//
	// Reading a text takes up to about 130 times its size in memory, for the
	// moment: so much for a text of nothing but one-letter values.
	MaxBytes int
}

// Parse reads the objects of a manifest and returns them in the manifest's
// order; see [Sort] for the order in which they are applied.
//
// The text holds any number of documents: YAML, separated by `---`, or JSON,
// also several JSON objects one after the other, in any mixture. Lists (a v1
// List, or any kind that ends in List and has items) are replaced by their
// items, nested ones too; items of a typed list such as ConfigMapList may leave
// out apiVersion and kind, as they do in the API server's own responses. Empty
// documents are skipped, and a text without an object is no error: the result
// is empty then, not nil.
//
// What the API server writes and nobody can apply is taken out of metadata, so
// that the output of `kubectl get -o yaml` is a manifest: managedFields (refused
// in an apply), resourceVersion and uid (preconditions that fail on any other
// object), creationTimestamp, deletionTimestamp, deletionGracePeriodSeconds,
// generation and selfLink. A status stays: the API server ignores it for
// kinds with a status subresource, and for a custom resource without one it is
// a field like any other.
//
// An error is always of type [Errors], and then no object is returned. Two
// objects with the same group, kind, namespace and name are an error, also when
// their versions differ. Parse reads on after a document that it cannot read,
// to report several in one go, and gives up after the tenth error.
func Parse(text string, opts Options) ([]Object, error) {
	limit := opts.MaxBytes
	if limit <= 0 {
		limit = DefaultMaxBytes
	}
	if len(text) > limit {
		return nil, Errors{{Position: Position{Source: opts.Source}, Message: fmt.Sprintf(
			"the manifest has %d bytes, and the limit is %d: split it in several", len(text), limit)}}
	}

	r := newReader(limit)
	for _, doc := range split(text) {
		if r.full() {
			break
		}
		r.document(doc)
	}
	for _, err := range r.errs {
		err.Position.Source = opts.Source
	}
	if len(r.errs) > 0 {
		return nil, r.errs
	}
	for i := range r.objects {
		r.objects[i].Position.Source = opts.Source
	}
	return r.objects, nil
}

// reader gathers the objects and the errors of one manifest.
type reader struct {
	conv    *converter
	objects []Object
	seen    inventory
	errs    Errors
}

// newReader returns a reader whose aliases may add limit bytes to the manifest.
func newReader(limit int) *reader {
	return &reader{
		conv:    newConverter(limit),
		objects: []Object{},
		seen:    inventory{},
	}
}

// full says that there are errors enough: more would help nobody.
func (r *reader) full() bool {
	return len(r.errs) >= maxErrors
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
		if !isNull(root) && !r.full() {
			r.node(root, Position{Document: doc.number, Line: root.Line}, typeMeta{}, 0)
		}
	}
}

// node adds the object, or the objects of the list, that a node describes.
// Without an apiVersion and a kind of its own an object takes the inherited
// ones.
func (r *reader) node(n *yaml.Node, at Position, inherited typeMeta, depth int) {
	if r.full() {
		return
	}
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
	id := identify(n, typeMeta{})
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

// object adds the one object that a node describes.
func (r *reader) object(n *yaml.Node, at Position, inherited typeMeta, depth int) {
	u, err := r.conv.object(n, inherited, depth)
	if err != nil {
		r.errs = append(r.errs, identify(n, inherited).fault(at, err))
		return
	}
	obj := Object{Unstructured: u, Position: at}
	if err := r.seen.add(obj); err != nil {
		r.errs = append(r.errs, err)
		return
	}
	r.objects = append(r.objects, obj)
}
