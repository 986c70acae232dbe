package ownership

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// GiveBack returns the managedFields of live without what manager reclaimed in it since
// before: what others owned in before is theirs again. What they wrote since stays theirs, too.
func GiveBack(live, before *unstructured.Unstructured, manager string) []any {
	missing := map[author]record{}
	var order []author
	for r := range records(before) {
		missing[authorOf(r)] = r
		order = append(order, authorOf(r))
	}
	var list []any
	for r := range records(live) {
		was, there := missing[authorOf(r)]
		delete(missing, authorOf(r))
		now := maps.Clone(r)
		switch {
		case !there:
		case r.text("manager") == manager && r.applies():
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

// author is what tells the entries of managedFields apart.
type author struct{ manager, operation, apiVersion, subresource string }

// authorOf is the author of an entry. An applier has one entry whatever its apiVersion; see
// applies.
func authorOf(r record) author {
	a := author{manager: r.text("manager"), operation: r.text("operation"), subresource: r.text("subresource")}
	if !r.applies() {
		a.apiVersion = r.text("apiVersion")
	}
	return a
}
