package ownership

import (
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// PatchOp is an operation of a JSON patch.
type PatchOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// patchOf moves the taken paths of entries to the first entry that is ours.
func patchOf(all []*entry, manager, apiVersion string) []PatchOp {
	var tests, changes, removals []PatchOp
	write := func(e *entry, set *fieldpath.Set) {
		at := fmt.Sprintf("/metadata/managedFields/%d", e.index)
		tests = append(tests, PatchOp{"test", at + "/manager", e.record.text("manager")}, PatchOp{"test", at + "/fieldsV1", e.record.fields()})
		if set.Empty() {
			removals = append(removals, PatchOp{Op: "remove", Path: at})
		} else {
			changes = append(changes, PatchOp{"replace", at + "/fieldsV1", treeOf(set)})
		}
	}
	var sets []*fieldpath.Set
	var ours *entry
	for _, e := range slices.SortedFunc(slices.Values(all), func(a, b *entry) int { return b.index - a.index }) { // a removal moves what follows
		if e.ours {
			ours = e
		}
		if e.taken == nil {
			continue
		}
		if sets = append(sets, e.taken.set); e.index >= 0 {
			write(e, e.all().Difference(e.taken.set))
		}
	}
	taken := unionOf(sets)
	switch {
	case taken.Empty():
		return nil
	case ours != nil:
		write(ours, ours.all().Union(taken))
	default:
		changes = append(changes, PatchOp{"add", "/metadata/managedFields/-", map[string]any{
			"manager": manager, "operation": string(metav1.ManagedFieldsOperationApply), "apiVersion": apiVersion,
			"fieldsType": "FieldsV1", "fieldsV1": treeOf(taken),
		}})
	}
	return slices.Concat(tests, changes, removals)
}

// treeOf is a set as the tree of a managedFields entry.
func treeOf(set *fieldpath.Set) json.RawMessage {
	text, err := set.ToJSON()
	if err != nil {
		return json.RawMessage("{}") // it was read from JSON
	}
	return text
}
