package ownership

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/terminal"
)

const (
	// maxValue is how many runes of a value a Change holds at most.
	maxValue = 80
	// MaxWhole is how many bytes of JSON the value of a Change has at most.
	MaxWhole = 512
	// maxName is how many runes of the name of a field a path holds at most. The
	// name of a label or an annotation has at most 317.
	maxName = 317
	// maxPath is how many bytes a path of a Change, and its pointer, have at most, unless its last element alone has more: an object may have thousands
	// of fields below a path of 200 KB.
	maxPath = 1 << 10
)

// renderElement returns an element of a path below a value at a place, as kubectl writes it. Where values are withheld, so are those that identify
// the items of a list.
func renderElement(element fieldpath.PathElement, at place, withheld bool) string {
	switch {
	case element.FieldName != nil:
		return renderName(*element.FieldName)
	case element.Index != nil:
		return fmt.Sprintf("[%d]", *element.Index)
	case withheld || hidesKeys(at.item(), element):
		return "[*]"
	case element.Value != nil:
		return "[=" + shorten((*element.Value).Unstructured(), ordinary) + "]"
	default:
		keys := make([]string, 0, len(*element.Key))
		for _, field := range *element.Key {
			keys = append(keys, field.Name+"="+shorten(field.Value.Unstructured(), ordinary))
		}
		return "[" + strings.Join(keys, ",") + "]"
	}
}

// hidesKeys reports whether the keys that identify an item of a list at p are withheld.
func hidesKeys(p place, element fieldpath.PathElement) bool {
	if element.Key == nil {
		return p == variable || p == concealed
	}
	return slices.ContainsFunc(*element.Key, func(key value.Field) bool { return p.field(key.Name).conceals(nil) })
}

// escapePointer escapes a name in a JSON pointer, and unescapePointer reverses that.
var (
	escapePointer   = strings.NewReplacer("~", "~0", "/", "~1")
	unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")
)

// PointerNames returns the names of a JSON pointer, which begins with a slash.
func PointerNames(pointer string) []string {
	names := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i := range names {
		names[i] = unescapePointer.Replace(names[i])
	}
	return names
}

// FieldPath returns the path of a field below a path, as a Change has it.
func FieldPath(path, name string) string {
	var b strings.Builder
	b.WriteString(path)
	appendElement(&b, renderName(name))
	return b.String()
}

// appendElement appends an element to a path.
func appendElement(b *strings.Builder, element string) {
	if b.Len() > 0 && element[0] != '[' {
		b.WriteByte('.')
	}
	b.WriteString(element)
}

// renderName returns the name of a field as kubectl writes it.
func renderName(name string) string {
	name = display.TruncateRunes(name, maxName)
	if name == "" || strings.ContainsAny(name, ".[]/\" ") || name != terminal.Escape(name) {
		return fmt.Sprintf("[%q]", name)
	}
	return name
}

// shorten is v as JSON, cut at a rune boundary, without the values of environment variables. at is the place of v. Of a large
// value, it encodes the shown part alone.
func shorten(v any, at place) string {
	return display.TruncateRunes(string(appendJSON(nil, v, at, maxValue)), maxValue)
}

// whole is v as JSON; empty if it is longer than MaxWhole bytes, or if a part of it is withheld.
func whole(v any, at place) string {
	text := appendJSON(nil, v, at, MaxWhole)
	if len(text) > MaxWhole || bytes.Contains(text, []byte(withheldText)) {
		return ""
	}
	return string(text)
}

// appendJSON encodes v at a place, and stops when b has so many runes for certain.
func appendJSON(b []byte, v any, at place, most int) []byte {
	enough := (most + 1) * utf8.UTFMax
	if at.conceals(v) {
		return appendScalar(b, withheldText)
	}
	switch v := v.(type) {
	case string:
		return appendScalar(b, display.TruncateRunes(v, most+1))
	case []any:
		b = append(b, '[')
		for i, item := range v {
			if len(b) > enough {
				return b
			}
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, item, at.item(), most)
		}
		return append(b, ']')
	case map[string]any:
		b = append(b, '{')
		for i, key := range slices.Sorted(maps.Keys(v)) {
			if len(b) > enough {
				return b
			}
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendScalar(b, display.TruncateRunes(key, most+1)), ':')
			b = appendJSON(b, v[key], at.field(key), most)
		}
		return append(b, '}')
	default:
		return appendScalar(b, v)
	}
}

// appendScalar encodes a scalar, with < and > as they are, and with characters that are not graphic as escapes.
func appendScalar(b []byte, v any) []byte {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return append(b, '?')
	}
	return append(b, terminal.EscapeJSON(strings.TrimSuffix(text.String(), "\n"))...)
}
