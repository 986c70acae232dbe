package insight

import (
	"reflect"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/pkg/ownership"
)

// unified is a diff of an object before and after, in YAML, without fields that the API server writes itself and without
// withheld values; empty for no difference. Nil is no object. The status is shown only if the VidraResource owns fields of it,
// as in a kind without the subresource. known is the decision about values of the object without these two.
func (d *differ) unified(before, after *unstructured.Unstructured, known ownership.Disclosure) string {
	known = known.With(before, after)
	hidden := [][]string{{"status"}}
	if d.ownsStatus(before) || d.ownsStatus(after) {
		hidden = nil
	}
	left, right := ShownYAML(before, after, "(before)", known, hidden...), ShownYAML(after, before, "(after)", known, hidden...)
	if left == right {
		return ""
	}
	return strings.TrimPrefix(udiff.Unified("live", "applied", left, right), "--- live\n+++ applied\n")
}

// ownsStatus reports whether the VidraResource owns fields of the status of an object.
func (d *differ) ownsStatus(obj *unstructured.Unstructured) bool {
	if obj == nil {
		return false
	}
	fields, _ := ownership.FieldsOf(obj, d.runner.By.Manager, nil, ownership.Disclosure{})
	return slices.ContainsFunc(fields, func(f ownership.Field) bool { return f.Path == "status" || strings.HasPrefix(f.Path, "status.") })
}

// serverMetadata are the fields of metadata that the API server writes.
var serverMetadata = []string{"managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink"}

// ShownYAML returns an object in YAML, without the fields of metadata that the API server writes and without hidden fields. A withheld value
// gets a mark, with the side if the other object has another value. Nil is no object.
func ShownYAML(obj, other *unstructured.Unstructured, side string, known ownership.Disclosure, hidden ...[]string) string {
	if obj == nil {
		return ""
	}
	obj = ownership.Mask(obj, known, func(path []string, value any) any {
		if other != nil && !reflect.DeepEqual(valueAt(other.Object, path), value) {
			return mask + " " + side
		}
		return mask
	})
	for _, name := range serverMetadata {
		unstructured.RemoveNestedField(obj.Object, "metadata", name)
	}
	for _, path := range hidden {
		unstructured.RemoveNestedField(obj.Object, path...)
	}
	text, err := yaml.Marshal(obj.Object)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
