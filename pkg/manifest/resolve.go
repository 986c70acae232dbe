package manifest

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// fallbackNamespace is the namespace of an object if neither it nor the destination names one, as for kubectl.
const fallbackNamespace = "default"

// Resolve sets the namespace of each object. namespaced reports whether a kind is namespaced.
//
// A namespaced object without a namespace gets the default one, which is "default" if the destination names none, as for
// kubectl. A cluster-scoped object with a metadata.namespace loses it, as in requests of kubectl: many charts write one into
// every object.
//
// The objects are returned in the order given. An error of type [Errors] means that the
// manifest is wrong, and then nothing may be applied: two objects turned out to be the
// same one, because one names the namespace that the other one gets by default.
//
// The given objects are unchanged; those returned share content with them.
func Resolve(objects []Object, defaultNamespace string, namespaced func(schema.GroupVersionKind) bool) ([]Object, error) {
	if defaultNamespace == "" {
		defaultNamespace = fallbackNamespace
	}
	placed := make([]Object, 0, len(objects))
	seen := inventory{}
	var errs Errors
	for _, obj := range objects {
		obj = place(obj, namespaced(obj.GroupVersionKind()), defaultNamespace)
		if err := seen.add(obj); err != nil {
			errs = append(errs, err)
		}
		placed = append(placed, obj)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return placed, nil
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
