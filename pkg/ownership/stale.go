package ownership

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// releaseTools are deployment tools that write only when a user runs them, and whose Update entries they never renew for a
// field that their configuration dropped: Helm 3, the Kubernetes providers of Terraform (which name the program of HashiCorp)
// and of Pulumi, and kapp. Controllers, such as those of Flux and Argo CD, write by themselves. An Apply entry of any program
// is withdrawn by its next apply.
var releaseTools = Tools{"helm", "HashiCorp", "terraform-provider-kubernetes*", "pulumi-resource-kubernetes", "kapp"}

// staleOwner reports whether an entry is one that states no lasting wish: the entry that the API
// server makes up, or one that a client of users wrote without server-side apply. tools are those clients.
func (r record) staleOwner(tools Tools) bool {
	manager := r.text("manager")
	return r.text("operation") == string(metav1.ManagedFieldsOperationUpdate) && r.text("subresource") == "" && r.fields() != nil &&
		(manager == beforeFirstApply || releaseTools.Has(manager) || tools.Has(manager))
}

// maxOthers is how many entries of other managers CoOwned compares. More are forged.
const maxOthers = 64

// CoOwned reports whether another manager owns a field of obj that a manager with prefix applied. It is true for an object with too
// many entries to compare.
func CoOwned(obj *unstructured.Unstructured, prefix string) bool {
	var ours, others []fieldsV1
	for r := range records(obj) {
		if r.appliedWith(prefix) {
			ours = append(ours, r.fields())
		} else {
			others = append(others, r.fields())
		}
		if len(ours) > maxApplied || len(others) > maxOthers {
			return true
		}
	}
	return slices.ContainsFunc(others, func(fields fieldsV1) bool {
		return slices.ContainsFunc(ours, func(applied fieldsV1) bool { return share(fields, applied) })
	})
}

// share reports whether two trees have a leaf in common.
func share(fields, ours fieldsV1) bool {
	for key, sub := range fields {
		same, shared := ours[key]
		if key == "." || !shared {
			continue
		}
		below, _ := sub.(map[string]any)
		oursBelow, _ := same.(map[string]any)
		if len(below) == 0 || len(oursBelow) == 0 || share(below, oursBelow) {
			return true
		}
	}
	return false
}

// WithoutStaleOwners returns the managedFields of obj without the fields that manager applied in the
// Update entries of before-first-apply, of deployment tools such as Helm 3, and of tools. Such an entry is never renewed,
// so its field would stay in obj when the configuration drops it. Other fields keep their owner. changed reports whether
// such an entry has a field of manager. See ReleaseFields for how to write the result.
func WithoutStaleOwners(obj *unstructured.Unstructured, manager string, tools Tools) (managedFields []any, changed bool) {
	ours := applied(obj, manager)
	if ours == nil {
		return nil, false
	}
	list, _, _ := unstructured.NestedSlice(obj.Object, "metadata", "managedFields") // a copy
	list = slices.DeleteFunc(list, func(item any) bool {
		m, _ := item.(map[string]any)
		r := record(m)
		if !r.staleOwner(tools) || !removeShared(r.fields(), ours) {
			return false
		}
		changed = true
		return len(r.fields()) == 0
	})
	return list, changed
}

// KeptField is a field that manager has stopped applying and that stays for another field manager.
type KeptField struct {
	Path, Manager string
	hash          uint32
}

// KeptPaths returns the paths of fields.
func KeptPaths(fields []KeptField) Paths {
	var hashes []uint32
	for _, field := range fields {
		hashes = append(hashes, field.hash)
	}
	return pathsOf(hashes)
}

// Kept returns the fields that manager applied to before, does not apply to after, and that other field managers without prefix own in
// after, in the order of their paths.
func Kept(before, after *unstructured.Unstructured, manager, prefix string, known Disclosure) (kept []KeptField) {
	dropped := setOf(applied(before, manager)).Difference(setOf(applied(after, manager)))
	if dropped.Empty() {
		return nil
	}
	withheld := known.With(before, after).Withholds()
	for r := range records(after) {
		if r.appliedWith(prefix) || r.fields() == nil {
			continue
		}
		var walk func(set *fieldpath.Set, path *step)
		walk = func(set *fieldpath.Set, path *step) {
			for _, element := range elements(set) {
				at := path.child(element)
				if text, err := fieldpath.SerializePathElement(element); err == nil {
					at.hash = path.hash.child(text)
				}
				if below, nested := set.Children.Get(element); nested {
					walk(below, at)
					continue
				}
				kept = append(kept, KeptField{Path: at.text(withheld), Manager: r.text("manager"), hash: at.hash.short()})
			}
		}
		walk(dropped.Intersection(setOf(r.fields())).Leaves(), &step{})
	}
	slices.SortStableFunc(kept, func(a, b KeptField) int { return strings.Compare(a.Path, b.Path) })
	return kept
}

// removeShared removes the leaves of ours from fields, and the nodes above that become empty. It keeps a node that ours
// owns as a whole while fields has a part of it.
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
