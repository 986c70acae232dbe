package ownership

import (
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// shownInSensitive are the top-level fields of a sensitive object whose values are shown.
var shownInSensitive = []string{"apiVersion", "kind", "type", "immutable"}

// Mask returns an object with its withheld values replaced: all values of a sensitive object, except its metadata without
// annotations, and values of environment variables. known is the decision about the object before Mask adds obj to it.
// replace gets the names of fields and the indexes of lists that lead to a value.
func Mask(obj *unstructured.Unstructured, known Disclosure, replace func(path []string, value any) any) *unstructured.Unstructured {
	sensitive := known.With(obj).Withholds()
	var mask func(value any, at place, path []string) any
	mask = func(value any, at place, path []string) any {
		switch v := value.(type) {
		case map[string]any:
			masked := make(map[string]any, len(v))
			for name, child := range v {
				masked[name] = mask(child, at.field(name), append(slices.Clone(path), name))
			}
			return masked
		case []any:
			masked := make([]any, len(v))
			for i, child := range v {
				masked[i] = mask(child, at.item(), append(slices.Clone(path), strconv.Itoa(i)))
			}
			return masked
		}
		if at.conceals(value) || sensitive && !shownAlways(path) {
			return replace(path, value)
		}
		return value
	}
	masked, _ := mask(obj.Object, ordinary, nil).(map[string]any)
	return &unstructured.Unstructured{Object: masked}
}

// shownAlways reports whether a value of a sensitive object is shown: it identifies the object.
func shownAlways(path []string) bool {
	if path[0] != "metadata" || len(path) == 1 {
		return slices.Contains(shownInSensitive, path[0])
	}
	return path[1] != "annotations" || len(path) == 3 && path[2] == SensitiveAnnotation
}
