package manifest

import (
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// fallbackNamespace is where an object goes if neither it nor the destination
// names a namespace: the one that kubectl uses then.
const fallbackNamespace = "default"

// Scope says whether objects of a kind live in a namespace, and whether the
// destination cluster serves the kind at all.
type Scope func(gvk schema.GroupVersionKind) (namespaced, known bool)

// Resolve settles the namespace of each object, and parts the objects whose kind
// the destination serves from the others.
//
// A namespaced object without a namespace gets the default one, which is
// "default" if the destination names none, as for kubectl. A cluster-scoped
// object with a metadata.namespace loses it: the API server does the same with
// what kubectl sends it, and many charts write one into every object.
//
// The known objects are returned in the order given. Each kind that is not
// served is one *Error in unknown, at its first object: these objects cannot be
// applied now, and the others can. An error of type [Errors] says that the
// manifest is wrong, and then nothing may be applied and known is nil: two
// objects turned out to be the same one, because one says what the other left
// to the default.
//
// The given objects are not changed; those returned share content with them.
func Resolve(objects []Object, defaultNamespace string, scope Scope) (known []Object, unknown Errors, err error) {
	if defaultNamespace == "" {
		defaultNamespace = fallbackNamespace
	}
	known = make([]Object, 0, len(objects))
	missing := map[schema.GroupVersionKind][]Object{}
	seen := inventory{}
	var errs Errors
	for _, obj := range objects {
		gvk := obj.GroupVersionKind()
		namespaced, served := scope(gvk)
		if !served {
			missing[gvk] = append(missing[gvk], obj)
			continue
		}
		obj = place(obj, namespaced, defaultNamespace)
		if err := seen.add(obj); err != nil {
			errs = append(errs, err)
		}
		known = append(known, obj)
	}
	if len(errs) > 0 {
		return nil, unservedKinds(objects, missing), errs
	}
	return known, unservedKinds(objects, missing), nil
}

// place returns the object in its namespace, or in none if it is cluster-scoped.
func place(obj Object, namespaced bool, defaultNamespace string) Object {
	have := obj.GetNamespace()
	switch {
	case namespaced && have == "":
		return withNamespace(obj, defaultNamespace)
	case !namespaced && have != "":
		return withNamespace(obj, "")
	}
	return obj
}

// withNamespace returns a copy of the object in another namespace. The copy has
// its own metadata and shares all else.
func withNamespace(obj Object, namespace string) Object {
	content := maps.Clone(obj.Object)
	if metadata, ok := content["metadata"].(map[string]any); ok {
		content["metadata"] = maps.Clone(metadata)
	}
	obj.Unstructured = &unstructured.Unstructured{Object: content}
	obj.SetNamespace(namespace)
	return obj
}

// unservedKinds returns one error for each kind that is missing, in the order in
// which the manifest names them.
func unservedKinds(objects []Object, missing map[schema.GroupVersionKind][]Object) Errors {
	var errs Errors
	for _, obj := range objects {
		gvk := obj.GroupVersionKind()
		of, unserved := missing[gvk]
		if !unserved {
			continue
		}
		delete(missing, gvk)
		message := fmt.Sprintf("the kind %s of %s is not served by the cluster: is its CRD installed, and the version right?",
			gvk.Kind, gvk.GroupVersion())
		if more := len(of) - 1; more > 0 {
			message += fmt.Sprintf(" (%d more of this kind)", more)
		}
		errs = append(errs, obj.fault("%s", message))
	}
	return errs
}
