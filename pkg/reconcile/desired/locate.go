package desired

import (
	"slices"

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

// Locate finds an object in the parts of the manifest of a VidraResource; nil if it is absent. It
// fails for an unreadable manifest or unreadable ignore rules. It need not know how the kind is served: an object without
// a namespace is found for the default namespace, and for no namespace.
func Locate(vr *v1alpha1.VidraResource, parts []Part, id object.Identity) (*Located, error) {
	found, err := LocateAll(vr, parts, []object.Identity{id})
	return found[id], err
}

// LocateAll is Locate for several objects, with one parse of the manifest. Absent objects are left out.
func LocateAll(vr *v1alpha1.VidraResource, parts []Part, ids []object.Identity) (map[object.Identity]*Located, error) {
	parsed, err := parse(parts)
	if err != nil {
		return nil, err
	}
	first := map[object.Identity]manifest.Object{} // the first object of each identity
	for _, obj := range parsed {
		for _, id := range identities(vr, object.IdentityIn(obj.Unstructured)) {
			if _, known := first[id]; !known {
				first[id] = obj
			}
		}
	}
	ids = slices.DeleteFunc(slices.Clone(ids), func(id object.Identity) bool { return first[id].Unstructured == nil })
	all := make(map[object.Identity]*Located, len(ids))
	if len(ids) == 0 {
		return all, nil
	}
	rules, err := rulesOf(vr)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if all[id] == nil {
			all[id] = locatedIn(parts, first[id], id, rules)
		}
	}
	return all, nil
}

// locatedIn returns an object of a manifest as Locate does. obj stays as it is.
func locatedIn(parts []Part, obj manifest.Object, id object.Identity, rules rules) *Located {
	found := &Located{Object: obj}
	placed := obj.DeepCopy()
	placed.SetNamespace(id.Namespace)
	found.Exemptions = exemptionsOf(rules.of(placed), placed)
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
