package ownership

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// Withholds reports whether any value of an object is withheld: because the object is
// sensitive, or because it has environment variables.
func Withholds(obj *unstructured.Unstructured) bool {
	return Disclose(false, SensitivityOf(obj), false).Withholds() || withholdsIn(ordinary, obj.Object)
}

// withholdsIn reports whether any part of value at p is withheld.
func withholdsIn(p place, value any) bool {
	if p.conceals(value) {
		return true
	}
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			if withholdsIn(p.field(name), field) {
				return true
			}
		}
	case []any:
		for _, item := range value {
			if withholdsIn(p.item(), item) {
				return true
			}
		}
	}
	return false
}
