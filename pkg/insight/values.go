package insight

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"github.com/vidra-operator/vidra/pkg/ownership"
)

// mask stands for a value that is never shown.
const mask = "***"

// mostShown is how many characters of a value are shown.
const mostShown = 60

// valueText is the value of a field in a masked object, in JSON and shortened; empty for none.
func valueText(masked map[string]any, field ownership.Field) string {
	if field.Tokens == nil {
		return ""
	}
	value := valueAt(masked, field.Tokens)
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if value == nil || encoder.Encode(value) != nil {
		return ""
	}
	shown := []rune(strings.TrimSpace(text.String()))
	if len(shown) > mostShown {
		shown = append(shown[:mostShown], '…')
	}
	return string(shown)
}

// valueAt is the value at names and indexes, or nil.
func valueAt(value any, path []string) any {
	for _, token := range path {
		switch v := value.(type) {
		case map[string]any:
			value = v[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

// otherValue reports whether two values are different. Mappings have fields of their own, and so have those in lists.
func otherValue(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		_, is := b.(map[string]any)
		return !is
	case []any:
		other, is := b.([]any)
		if !is || len(a) != len(other) {
			return true
		}
		for i := range a {
			if otherValue(a[i], other[i]) {
				return true
			}
		}
		return false
	}
	return !reflect.DeepEqual(a, b)
}
