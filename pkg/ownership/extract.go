package ownership

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Extract returns the configuration that manager applied to obj, with the values of obj: an apply of it leaves obj as it is.
// Fields that another manager has taken are missing. ok is false if manager applied nothing, or if obj lacks a field that it
// owns: an apply would remove that field.
func Extract(obj *unstructured.Unstructured, manager string) (configuration *unstructured.Unstructured, ok bool) {
	fields := applied(obj, manager)
	if fields == nil {
		return nil, false
	}
	x := extractor{treesAt{trees: appendOthers(nil, obj, manager)}}
	content, ok := x.mapping(fields, obj.Object)
	if !ok {
		return nil, false
	}
	configuration = &unstructured.Unstructured{Object: content}
	configuration.SetGroupVersionKind(obj.GroupVersionKind())
	configuration.SetNamespace(obj.GetNamespace())
	configuration.SetName(obj.GetName())
	return configuration, true
}

// extractor makes a configuration from a tree and the live values.
type extractor struct {
	// at leads to the field that is being extracted, with the trees of all other managers.
	at treesAt
}

// value returns the owned part of a live value. below is the tree of the field; it is empty for a leaf.
func (x *extractor) value(below fieldsV1, live any) (any, bool) {
	switch at := live.(type) {
	case map[string]any:
		if len(below) > 0 {
			return x.mapping(below, at)
		}
		if x.at.anyBelow() { // it was applied empty, and its content is of others
			return map[string]any{}, true
		}
	case []any:
		if len(below) > 0 {
			return x.list(below, at)
		}
	default:
		if _, self := below["."]; len(below) > 1 || len(below) == 1 && !self {
			return nil, false
		}
	}
	return runtime.DeepCopyJSONValue(live), true
}

func (x *extractor) mapping(fields fieldsV1, live map[string]any) (map[string]any, bool) {
	content := make(map[string]any, len(fields))
	for key, sub := range fields {
		if key == "." {
			continue
		}
		name, isField := strings.CutPrefix(key, "f:")
		child, found := live[name]
		if !isField || !found {
			return nil, false
		}
		below, _ := sub.(map[string]any)
		x.at.descend(key)
		extracted, ok := x.value(below, child)
		x.at.ascend()
		if !ok {
			return nil, false
		}
		content[name] = extracted
	}
	return content, true
}

// list returns the owned items of a list, in the order of the list. Each key must select an item of its own.
func (x *extractor) list(fields fieldsV1, live []any) ([]any, bool) {
	list, owned := node{live: live}, map[int]string{}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if key == "." {
			continue
		}
		element, err := fieldpath.DeserializePathElement(key)
		if err != nil {
			return nil, false
		}
		g, found := list.selected(live, element)
		if _, shared := owned[g.first]; !found || shared || g.count() > 1 {
			return nil, false
		}
		owned[g.first] = key
	}
	items := make([]any, 0, len(owned))
	for _, i := range slices.Sorted(maps.Keys(owned)) {
		item, ok := x.item(owned[i], fields, live[i])
		if !ok {
			return nil, false
		}
		items = append(items, item)
	}
	return items, true
}

// item returns the owned part of a list item, with the keys that identify it to the API server.
func (x *extractor) item(key string, fields fieldsV1, live any) (any, bool) {
	below, _ := fields[key].(map[string]any)
	if strings.HasPrefix(key, "v:") {
		return runtime.DeepCopyJSONValue(live), true
	}
	at, is := live.(map[string]any)
	if _, self := below["."]; !is || len(below) == 0 || len(below) == 1 && self {
		return nil, false // of such an item, the keys that were applied are not known
	}
	x.at.descend(key)
	defer x.at.ascend()
	return x.mapping(below, at)
}
