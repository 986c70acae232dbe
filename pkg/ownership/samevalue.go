package ownership

import (
	"bytes"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// SameValue reports whether two configurations have the same value of a field that manager applied to live. field is the path as the
// API server names it in a conflict. It reports false for a field that one of them lacks.
func SameValue(live *unstructured.Unstructured, manager, field string, a, b *unstructured.Unstructured) bool {
	for _, entry := range live.GetManagedFields() {
		if entry.Manager != manager || entry.Operation != metav1.ManagedFieldsOperationApply || entry.Subresource != "" || entry.FieldsV1 == nil {
			continue
		}
		set, same := &fieldpath.Set{}, false
		if set.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())) != nil {
			return false
		}
		set.Iterate(func(path fieldpath.Path) {
			if path.String() != field {
				return
			}
			one, inA := valueAt(a.Object, path)
			other, inB := valueAt(b.Object, path)
			same = same || inA && inB && reflect.DeepEqual(one, other)
		})
		if same {
			return true
		}
	}
	return false
}

// valueAt returns the value at a path.
func valueAt(value any, path fieldpath.Path) (any, bool) {
	for _, element := range path {
		child, found := (&node{live: value}).child(element)
		if !found {
			return nil, false
		}
		value = child
	}
	return value, true
}
