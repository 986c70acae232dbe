package ownership

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// helm3 is the field manager of the Update entries of Helm 3.
const helm3 = "helm"

// staleOwner reports whether an entry is one that states no lasting wish: the entry that the API
// server makes up, or one that a client of users wrote without server-side apply.
func (r record) staleOwner() bool {
	manager := r.text("manager")
	return r.text("operation") == string(metav1.ManagedFieldsOperationUpdate) && r.text("subresource") == "" && r.fields() != nil &&
		(manager == beforeFirstApply || manager == helm3 || DefaultTools.Has(manager))
}

// HasStaleOwners reports whether obj has an owner for which WithoutStaleOwners may return another result.
func HasStaleOwners(obj *unstructured.Unstructured) bool {
	for r := range records(obj) {
		if r.staleOwner() {
			return true
		}
	}
	return false
}

// WithoutStaleOwners returns the managedFields of obj without the fields that manager applied in the
// Update entries of before-first-apply, of Helm 3 and of [DefaultTools]. Such an entry is never renewed,
// so its field would stay in obj when the configuration drops it. Fields that manager did not apply keep
// their owner. changed is false if no such entry has a field of manager. See ReleaseFields for how to
// write the result.
func WithoutStaleOwners(obj *unstructured.Unstructured, manager string) (managedFields []any, changed bool) {
	ours := applied(obj, manager)
	if ours == nil || !HasStaleOwners(obj) {
		return nil, false
	}
	list, _, _ := unstructured.NestedSlice(obj.Object, "metadata", "managedFields") // a copy
	list = slices.DeleteFunc(list, func(item any) bool {
		m, _ := item.(map[string]any)
		r := record(m)
		if !r.staleOwner() || !removeShared(r.fields(), ours) {
			return false
		}
		changed = true
		return len(r.fields()) == 0
	})
	return list, changed
}

// removeShared removes from fields the leaves that ours has, and the nodes above that have no other
// field. It keeps a node of which ours owns the whole and fields only a part.
func removeShared(fields, ours fieldsV1) (removed bool) {
	for key := range maps.Clone(fields) {
		other, shared := ours[key]
		if key == "." || !shared {
			continue
		}
		below, _ := fields[key].(map[string]any)
		oursBelow, _ := other.(map[string]any)
		switch {
		case len(below) == 0:
			delete(fields, key)
			removed = true
		case len(oursBelow) > 0 && removeShared(below, oursBelow):
			removed = true
			if _, self := below["."]; len(below) == 0 || self && len(below) == 1 {
				delete(fields, key)
			}
		}
	}
	return removed
}
