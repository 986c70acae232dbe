package ownership

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// RestoreEntries returns the managedFields of live without the paths that manager took from other managers since before. These
// own their paths of before again, and the paths that they wrote since.
func RestoreEntries(live, before *unstructured.Unstructured, manager string) []any {
	missing := map[entryID]record{}
	var order []entryID
	for r := range records(before) {
		missing[entryIDOf(r)] = r
		order = append(order, entryIDOf(r))
	}
	var list []any
	for r := range records(live) {
		was, there := missing[entryIDOf(r)]
		delete(missing, entryIDOf(r))
		now := maps.Clone(r)
		switch {
		case !there:
		case r.appliedBy(manager):
			now["fieldsV1"] = was["fieldsV1"]
		case was.fields() != nil:
			now["fieldsV1"] = treeOf(setOf(r.fields()).Union(setOf(was.fields())))
		}
		list = append(list, map[string]any(now))
	}
	for _, a := range order {
		if r, gone := missing[a]; gone {
			list = append(list, map[string]any(r))
		}
	}
	return list
}

// entryID identifies an entry of managedFields.
type entryID struct{ manager, operation, apiVersion, subresource string }

// entryIDOf returns the ID of an entry. A manager that applies has one entry for all apiVersions;
// see applies.
func entryIDOf(r record) entryID {
	a := entryID{manager: r.text("manager"), operation: r.text("operation"), subresource: r.text("subresource")}
	if !r.applies() {
		a.apiVersion = r.text("apiVersion")
	}
	return a
}
