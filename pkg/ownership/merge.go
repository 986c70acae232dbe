package ownership

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Apply returns the JSON patch (RFC 6902) with the result of two requests: the additions are removed from live, and manager applies a
// configuration. It is for a dry run, which cannot send two requests one after the other. The API server sets defaults in its result.
func (a Addition) Apply(live *unstructured.Unstructured, configuration map[string]any, manager string) []PatchOp {
	set := newBuilt()
	for _, path := range a.paths {
		set.insert(path)
	}
	left, _ := without(live.Object, nil, set.set).(map[string]any)
	after := Merge(&unstructured.Unstructured{Object: left}, configuration, func(applier, operation string) bool {
		return applier == manager && operation == string(metav1.ManagedFieldsOperationApply)
	})
	return replacing(live.Object, after.Object)
}

// replacing returns the JSON patch that makes of an object another one, apart from its status and the metadata that the API server
// writes.
func replacing(before, after map[string]any) []PatchOp {
	var operations []PatchOp
	replace := func(path string, before, after any) {
		switch {
		case after == nil && before != nil:
			operations = append(operations, PatchOp{Op: "remove", Path: path})
		case after != nil && digestOf(before) != digestOf(after):
			operations = append(operations, PatchOp{Op: "add", Path: path, Value: after})
		}
	}
	fields := maps.Clone(before)
	maps.Copy(fields, after)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(serverFields, name) {
			replace("/"+escapePointer.Replace(name), before[name], after[name])
		}
	}
	for _, name := range []string{"labels", "annotations"} {
		was, _, _ := unstructured.NestedFieldNoCopy(before, "metadata", name)
		is, _, _ := unstructured.NestedFieldNoCopy(after, "metadata", name)
		replace("/metadata/"+name, was, is)
	}
	return operations
}

// Merge returns the result of an apply of configuration to live, before the API server sets defaults. applier reports whether
// an entry of managedFields has fields that the apply removes if configuration has dropped them. The kinds of lists are known
// from managedFields alone: a list without an owned item is replaced.
func Merge(live *unstructured.Unstructured, configuration map[string]any, applier func(manager, operation string) bool) *unstructured.Unstructured {
	var all, ours []*fieldpath.Set
	for r := range records(live) {
		if r.fields() == nil || r.text("subresource") != "" {
			continue
		}
		set := setOf(r.fields())
		if all = append(all, set); applier(r.text("manager"), r.text("operation")) {
			ours = append(ours, set)
		}
	}
	merged, _ := mergeValue(live.DeepCopy().Object, configuration, unionOf(all), unionOf(ours)).(map[string]any)
	return &unstructured.Unstructured{Object: merged}
}

// mergeValue merges a value of the configuration into a live one. all is owned there by any manager, and ours by the applier.
func mergeValue(live, conf any, all, ours *fieldpath.Set) any {
	switch conf := conf.(type) {
	case map[string]any:
		fields, isMap := live.(map[string]any)
		if !isMap {
			return conf
		}
		merged, _ := without(fields, conf, ours).(map[string]any)
		if merged == nil {
			merged = map[string]any{}
		}
		for name, value := range conf {
			element := fieldpath.PathElement{FieldName: &name}
			if _, nested := all.Children.Get(element); !nested && all.Members.Has(element) {
				merged[name] = value // owned as a whole
				continue
			}
			merged[name] = mergeValue(fields[name], value, all.WithPrefix(element), ours.WithPrefix(element))
		}
		return merged
	case []any:
		return mergeList(live, conf, all, ours)
	}
	return conf
}

func mergeList(live any, conf []any, all, ours *fieldpath.Set) any {
	items, _ := live.([]any)
	if names, set := listOf(all); names == nil && !set {
		return conf
	}
	var merged []any
	taken := map[int]bool{}
	list, configuration, owned := node{live: items}, node{live: conf}, newFirsts()
	for _, element := range elements(all) {
		if g, found := list.selected(items, element); found {
			owned.addAll(g, element)
		}
	}
	for at, item := range items {
		element, known := owned.of[at]
		i, configured := 0, false
		if known {
			if i, configured = configuration.place(conf, element); !configured {
				i, configured = configuration.placeOfApplied(conf, element, ours)
			}
		}
		switch {
		case configured && !taken[i]:
			taken[i] = true
			merged = append(merged, mergeValue(item, conf[i], all.WithPrefix(element), ours.WithPrefix(element)))
		case known && ours.Members.Has(element):
		case known && !ours.WithPrefix(element).Empty():
			if fields, isMap := item.(map[string]any); isMap {
				item = without(fields, nil, ours.WithPrefix(element))
			}
			merged = append(merged, item)
		default:
			merged = append(merged, item)
		}
	}
	for i, item := range conf {
		if !taken[i] {
			merged = append(merged, item)
		}
	}
	return merged
}

// without returns a map without the fields of ours that the configuration has dropped; nil if it becomes empty.
func without(fields, conf map[string]any, ours *fieldpath.Set) any {
	left := maps.Clone(fields)
	for _, element := range elements(ours) {
		if element.FieldName == nil {
			continue
		}
		name := *element.FieldName
		value, there := fields[name]
		if _, configured := conf[name]; configured || !there {
			continue
		}
		below, nested := ours.Children.Get(element)
		inner, isMap := value.(map[string]any)
		switch {
		case ours.Members.Has(element) || !nested:
			delete(left, name)
		case isMap:
			if left[name] = without(inner, nil, below); left[name] == nil {
				delete(left, name)
			}
		default:
			if list := mergeList(value, nil, below, below); len(list.([]any)) == 0 { //nolint:forcetypeassert // it returns a list
				delete(left, name)
			} else {
				left[name] = list
			}
		}
	}
	if len(left) == 0 {
		return nil
	}
	return left
}
