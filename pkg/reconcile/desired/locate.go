package desired

import (
	"iter"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// Located is an object of a manifest with the text that has it.
type Located struct {
	Object manifest.Object
	// Exemptions are the ignore rules for it.
	Exemptions Exemptions
	part       Part
	// stringData is the field of a Secret: the object has it in data, as it is applied, and the text lacks it.
	stringData map[string]any
}

// Parsed is a manifest whose objects are found by their identities. It need not know how the kinds are served: an object without
// a namespace has two identities: in the default namespace, and in none. It is safe for concurrent use.
type Parsed struct {
	parts []Part
	// objects has the first object of each identity.
	objects map[object.Identity]manifest.Object
	rules   func() (rules, error)
}

// Parse parses the parts of the manifest of a VidraResource. It fails for an unreadable manifest.
func Parse(vr *v1alpha1.VidraResource, parts []Part) (*Parsed, error) {
	all, err := parse(parts)
	if err != nil {
		return nil, err
	}
	p := &Parsed{parts: parts, objects: make(map[object.Identity]manifest.Object, 2*len(all)), rules: sync.OnceValues(func() (rules, error) { return rulesOf(vr) })}
	for _, obj := range all {
		for _, id := range identities(vr, object.IdentityIn(obj.Unstructured)) {
			if _, known := p.objects[id]; !known {
				p.objects[id] = obj
			}
		}
	}
	return p, nil
}

// Identities returns the identities of the objects, in no order.
func (p *Parsed) Identities() iter.Seq[object.Identity] { return maps.Keys(p.objects) }

// Locate finds an object; nil if it is absent. It fails for unreadable ignore rules.
func (p *Parsed) Locate(id object.Identity) (*Located, error) {
	obj, found := p.objects[id]
	if !found {
		return nil, nil //nolint:nilnil // an absent object is no failure
	}
	rules, err := p.rules()
	if err != nil {
		return nil, err
	}
	return locatedIn(p.parts, obj, id, rules), nil
}

// Locate is Parse, and Locate for one object.
func Locate(vr *v1alpha1.VidraResource, parts []Part, id object.Identity) (*Located, error) {
	p, err := Parse(vr, parts)
	if err != nil {
		return nil, err
	}
	return p.Locate(id)
}

// locatedIn returns an object of a manifest as Locate does. obj stays as it is.
func locatedIn(parts []Part, obj manifest.Object, id object.Identity, rules rules) *Located {
	found := &Located{Object: obj}
	placed := obj.DeepCopy()
	placed.SetNamespace(id.Namespace)
	found.Exemptions, _ = exemptionsOf(rules.of(placed), placed, new(maxIgnoreSteps))
	if id.GroupKind == object.SecretKind {
		found.Object.Unstructured = obj.DeepCopy()
		found.stringData, _, _ = unstructured.NestedMap(found.Object.Object, "stringData")
		MergeStringData(found.Object.Unstructured)
	}
	for _, part := range parts {
		if part.name == found.Object.Position.Source {
			found.part = part
		}
	}
	return found
}

// In returns where the manifest of a VidraResource has the object: the part, the document and the line.
func (l *Located) In(vr *v1alpha1.VidraResource) string { return placeOf(l.Object.Position).In(vr) }

// Source is the entry of spec.manifestFrom that has the text; nil for spec.manifest.
func (l *Located) Source() *v1alpha1.ManifestSource { return l.part.source }

// Line is the line of the part in which a field of the object begins, or the line of the next field
// above it that the text has. The path has names of fields and indexes of lists.
func (l *Located) Line(path ...string) int {
	if len(path) > 1 && path[0] == "data" {
		if _, is := l.stringData[path[1]]; is {
			path = append([]string{"stringData"}, path[1:]...)
		}
	}
	return manifest.Line(l.Text(), l.Object.Position, path)
}

// Text is the text in which the object has its position: the part, or the file that the part was made of.
func (l *Located) Text() string {
	if l.part.origin != nil {
		return l.part.origin.Text
	}
	return l.part.text
}

// File is the path of the file in its artifact; empty for an object of another source. built reports that the object was made from it, so
// that it may have fields that the file lacks.
func (l *Located) File() (path string, built bool) { return l.part.file, l.part.origin != nil }

// Secret reports whether the text is in a Secret, or has values of one.
func (l *Located) Secret() bool { return l.part.secret }
