package ownership

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// unreadable matches the text about a list that server-side apply cannot read: the path of the list, the index of the first
// item at fault, and the key that this item lacks, if it does. The text is in sigs.k8s.io/structured-merge-diff/v6/typed, visitListItems and
// keyedAssociativeListItemToPathElement; this text is the only sign of the item.
var unreadable = regexp.MustCompile(`(?m)(?:^|\): |\s)(\.\S.*): element (\d+): associative list (?:.* omits key field "([^"]+)")?`)

// RemoveUnreadable returns a JSON patch that removes the items that server-side apply cannot read from the lists that an error of the
// API server names, as far as configuration has these lists. It is for this version of live. All other items and lists stay. Empty if the error names no such item of live.
func RemoveUnreadable(live *unstructured.Unstructured, configuration map[string]any, message string) (patch []PatchOp) {
	for _, found := range unreadable.FindAllStringSubmatch(message, -1) {
		items, pointer := listAt(live.Object, configuration, found[1])
		first, err := strconv.Atoi(found[2])
		for i, item := range slices.Backward(items) {
			fields, isMap := item.(map[string]any)
			if _, keyed := fields[found[3]]; err != nil || i != first && (found[3] == "" || isMap && keyed) {
				continue
			}
			at := pointer + "/" + strconv.Itoa(i)
			patch = append(patch, PatchOp{Op: "remove", Path: at})
		}
	}
	return patch
}

// listAt returns the list at a path as an error of the API server has it, such as .spec.containers[name="web"].ports, and its JSON
// pointer; nil if the object or the configuration lacks such a list.
func listAt(live, conf any, path string) (items []any, pointer string) {
	for path != "" {
		var token string
		switch at := live.(type) {
		case map[string]any:
			var name string
			for field := range at { // the longest one: a name may have dots
				if rest, is := strings.CutPrefix(path, "."+field); is && len(field) >= len(name) && (rest == "" || rest[0] == '.' || rest[0] == '[') {
					name = field
				}
			}
			fields, _ := conf.(map[string]any)
			live, conf, path = at[name], fields[name], strings.TrimPrefix(path, "."+name)
			token = escapePointer.Replace(name)
			if name == "" {
				return nil, ""
			}
		case []any:
			element, rest := keyAt(path)
			i := slices.IndexFunc(at, func(item any) bool { return selects(element, item) })
			same, _, configured := (&node{live: conf}).configured(element, true)
			if i < 0 || !configured {
				return nil, ""
			}
			live, conf, path, token = at[i], same.live, rest, strconv.Itoa(i)
		default:
			return nil, ""
		}
		pointer += "/" + token
	}
	if _, configured := conf.([]any); !configured {
		return nil, ""
	}
	items, _ = live.([]any)
	return items, pointer
}

// keyAt reads the key of a list item at the beginning of a path, such as [name="web",port=80], and returns the rest of the path. The
// element selects nothing if there is none.
func keyAt(path string) (element fieldpath.PathElement, rest string) {
	key := map[string]json.RawMessage{}
	for rest = strings.TrimPrefix(path, "["); rest != ""; {
		name, after, found := strings.Cut(rest, "=")
		decoder := json.NewDecoder(strings.NewReader(after))
		var value json.RawMessage
		if !found || decoder.Decode(&value) != nil {
			return fieldpath.PathElement{}, ""
		}
		key[name], rest = value, after[decoder.InputOffset():]
		if after, more := strings.CutPrefix(rest, ","); more {
			rest = after
			continue
		}
		text, err := json.Marshal(key)
		if err != nil {
			return fieldpath.PathElement{}, ""
		}
		element, err = fieldpath.DeserializePathElement("k:" + string(text))
		if err != nil {
			return fieldpath.PathElement{}, ""
		}
		return element, strings.TrimPrefix(rest, "]")
	}
	return fieldpath.PathElement{}, ""
}
