package ownership

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Reversion returns the managedFields of obj with the entries of the apiVersion from as entries of the apiVersion to. An API
// server that has stopped serving from refuses each apply to the object: it cannot convert the object to that version, where
// it would look for the fields of the entry. A path counts as the same field in both versions. changed reports whether there
// is such an entry. ReleaseFields describes how to write the result.
func Reversion(obj *unstructured.Unstructured, from, to string) (managedFields []any, changed bool) {
	seen := map[entryID]record{}
	for r := range records(obj) {
		is := maps.Clone(r)
		if r.text("apiVersion") == from {
			is["apiVersion"], changed = to, true
		}
		if same, found := seen[entryIDOf(is)]; found && is.fields() != nil {
			same["fieldsV1"] = merged([]fieldsV1{same.fields(), is.fields()})
			continue
		}
		seen[entryIDOf(is)] = is
		managedFields = append(managedFields, map[string]any(is))
	}
	return managedFields, changed
}
