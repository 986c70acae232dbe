package manifest

import (
	"cmp"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

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
	defaultNamespace = cmp.Or(defaultNamespace, metav1.NamespaceDefault)
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

// place returns the object in its namespace, or in none if it is cluster-scoped. An object in another namespace than before is a copy
// that has its own metadata and shares all else.
func place(obj Object, namespaced bool, defaultNamespace string) Object {
	namespace := ""
	if namespaced {
		namespace = cmp.Or(obj.GetNamespace(), defaultNamespace)
	}
	if namespace == obj.GetNamespace() {
		return obj
	}
	content := maps.Clone(obj.Object)
	if metadata, ok := content["metadata"].(map[string]any); ok {
		content["metadata"] = maps.Clone(metadata)
	}
	obj.Unstructured = &unstructured.Unstructured{Object: content}
	obj.SetNamespace(namespace)
	return obj
}
