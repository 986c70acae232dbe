package stopwatch

import (
	"reflect"
)

// Covers says whether live holds everything that want does: each key of a map,
// each item of a list at its place, each value. What live has beyond that, as
// defaults and status, does not matter. Both are JSON values as in an
// unstructured object.
func Covers(live, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		have, ok := live.(map[string]any)
		if !ok {
			return false
		}
		for key, value := range want {
			got, found := have[key]
			if !found || !Covers(got, value) {
				return false
			}
		}
		return true
	case []any:
		have, ok := live.([]any)
		if !ok || len(have) != len(want) {
			return false
		}
		for i := range want {
			if !Covers(have[i], want[i]) {
				return false
			}
		}
		return true
	default:
		return reflect.DeepEqual(live, want)
	}
}
