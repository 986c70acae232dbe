package ownership

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Change is one owned field that had been changed.
type Change struct {
	// Path of the field as kubectl users write it:
	// spec.template.spec.containers[name="web"].image.
	Path string
	// Found is the value that somebody had set, as JSON, shortened to
	// maxValue runes. Empty when the field had been removed or is withheld.
	Found string
	// Restored is the value that the owner applies, written like Found.
	Restored string
	// Removed says that the field had been removed.
	Removed bool
	// Withheld says that the values are not shown because the kind is
	// sensitive.
	Withheld bool
	// Manager is the field manager that owned the field when it was found.
	// Empty where none did: who removes a field owns nothing, so the API server
	// does not record who it was.
	Manager string
	// Operation of Manager: Apply or Update.
	Operation string
	// Subresource through which Manager wrote; empty for the object itself.
	Subresource string
	// Time of Manager's last write, at the API server's resolution of a second.
	Time time.Time
}

// maxValue is how many runes of a value a Change holds at most.
const maxValue = 80

// Drift lists what manager owns in restored and what was different in found,
// in the order of the paths. An object that was removed altogether has no
// Changes: found must be an object.
func Drift(found, restored *unstructured.Unstructured, manager string) []Change {
	fields := applied(restored, manager)
	if fields == nil {
		return nil
	}
	w := walker{managers: foreign(found, manager), withheld: sensitive(restored)}
	w.compare(fields, found.Object, restored.Object, nil)
	return w.changes
}

// sensitive says whether the values of obj must not be shown.
func sensitive(obj *unstructured.Unstructured) bool {
	return obj.GetKind() == "Secret" && obj.GetAPIVersion() == "v1"
}

// foreign are the entries of everybody but manager's own.
func foreign(obj *unstructured.Unstructured, manager string) []entry {
	var others []entry
	for _, e := range entries(obj) {
		if !e.isApply(manager) {
			others = append(others, e)
		}
	}
	return others
}

// walker collects the changes between two objects.
type walker struct {
	managers []entry
	withheld bool
	changes  []Change
}

// compare walks the owned tree. path holds the keys that lead to fields.
func (w *walker) compare(fields fieldsV1, found, restored any, path []string) {
	for _, key := range sortedKeys(fields) {
		if key == "." {
			continue // a missing node is reported by its parent
		}
		at := slices.Concat(path, []string{key})
		want, wanted := descend(restored, key)
		got, present := descend(found, key)
		sub, _ := fields[key].(map[string]any)
		switch {
		case !wanted:
			// Owned and absent: the server dropped a value that we applied.
		case !present:
			w.add(at, nil, want, true)
		case len(sub) > 0:
			w.compare(sub, got, want, at)
		case !reflect.DeepEqual(got, want):
			w.add(at, got, want, false)
		}
	}
}

func (w *walker) add(path []string, found, restored any, removed bool) {
	c := Change{Path: render(path), Removed: removed, Withheld: w.withheld}
	if !w.withheld {
		c.Restored = shorten(restored)
		if !removed {
			c.Found = shorten(found)
		}
	}
	if owner, ok := lastOwner(w.managers, path); ok {
		c.Manager, c.Operation, c.Subresource, c.Time = owner.manager, owner.operation, owner.subresource, owner.time
	}
	w.changes = append(w.changes, c)
}

// lastOwner is the manager that wrote path last, among those that own it.
func lastOwner(all []entry, path []string) (entry, bool) {
	var last entry
	found := false
	for _, e := range all {
		if owns(e.fields, path) && (!found || e.time.After(last.time)) {
			last, found = e, true
		}
	}
	return last, found
}

// owns says whether fields hold path, or a field above it as a whole.
func owns(fields fieldsV1, path []string) bool {
	for i, key := range path {
		sub, ok := fields[key].(map[string]any)
		if !ok {
			return false
		}
		if len(sub) == 0 || i == len(path)-1 {
			return true
		}
		fields = sub
	}
	return false
}

// render writes a path as kubectl users know it.
func render(path []string) string {
	var b strings.Builder
	for _, key := range path {
		kind, rest, _ := strings.Cut(key, ":")
		switch kind {
		case "f":
			renderField(&b, rest)
		case "k":
			b.WriteString("[" + renderKeys(rest) + "]")
		case "v":
			b.WriteString("[=" + rest + "]")
		default:
			b.WriteString("[" + rest + "]")
		}
	}
	return b.String()
}

func renderField(b *strings.Builder, name string) {
	if strings.ContainsAny(name, ".[]/\" ") {
		fmt.Fprintf(b, "[%q]", name)
		return
	}
	if b.Len() > 0 {
		b.WriteByte('.')
	}
	b.WriteString(name)
}

// renderKeys turns {"name":"web","port":80} into name="web",port=80.
func renderKeys(text string) string {
	var keys map[string]any
	if err := json.Unmarshal([]byte(text), &keys); err != nil {
		return text
	}
	parts := make([]string, 0, len(keys))
	for _, key := range sortedKeys(keys) {
		parts = append(parts, key+"="+shorten(keys[key]))
	}
	return strings.Join(parts, ",")
}

// shorten is v as JSON, cut at a rune boundary.
func shorten(v any) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return "?"
	}
	text := strings.TrimSuffix(b.String(), "\n")
	if utf8.RuneCountInString(text) <= maxValue {
		return text
	}
	return string([]rune(text)[:maxValue-1]) + "…"
}
