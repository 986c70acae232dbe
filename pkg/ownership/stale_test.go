package ownership

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithoutStaleOwners(t *testing.T) {
	const content = `"spec":{"a":1,"b":2,"m":{"x":1,"y":2}}`
	const both = `{"f:spec":{"f:a":{},"f:m":{"f:x":{}}}}`
	tests := map[string]struct {
		reason  string
		entries []string
		left    []string // the managers whose entries are left; nil if nothing changes
		fields  string   // what the first entry that is left beside ours owns
	}{
		"MadeUp":     {"All of the entry is ours.", []string{ours(both), theirs("before-first-apply", both)}, []string{manager}, ""},
		"Rest":       {"What the manifest does not have keeps its owner.", []string{ours(both), theirs("kubectl-client-side-apply", `{"f:spec":{"f:a":{},"f:b":{}}}`)}, []string{manager, "kubectl-client-side-apply"}, `{"f:spec":{"f:b":{}}}`},
		"Parent":     {"A map goes with its last field.", []string{ours(both), theirs("helm", `{"f:spec":{".":{},"f:m":{".":{},"f:x":{}}}}`)}, []string{manager}, ""},
		"ParentRest": {"A map of another field stays.", []string{ours(both), theirs("helm", `{"f:spec":{"f:m":{".":{},"f:x":{},"f:y":{}}}}`)}, []string{manager, "helm"}, `{"f:spec":{"f:m":{".":{},"f:y":{}}}}`},
		"Whole":      {"A map that is ours as a whole says nothing about its fields.", []string{ours(`{"f:spec":{"f:m":{}}}`), theirs("helm", `{"f:spec":{"f:m":{"f:x":{}}}}`)}, nil, ""},
		"Controller": {"A controller may want its field.", []string{ours(both), theirs("some-controller", both)}, nil, ""},
		"Applier":    {"An applier removes its field by an apply.", []string{ours(both), managed("kubectl", "Apply", "2026-01-02T03:05:00Z", both)}, nil, ""},
		"Unshared":   {"Nothing of the entry is ours.", []string{ours(both), theirs("kubectl-edit", `{"f:spec":{".":{},"f:b":{}}}`)}, nil, ""},
		"NotOurs":    {"We own nothing.", []string{theirs("before-first-apply", both)}, nil, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			obj := widget(t, content, tt.entries...)
			before := obj.DeepCopy()
			got, changed := WithoutStaleOwners(obj, manager, DefaultTools)
			require.Equal(t, before, obj, "the argument is not modified")
			require.Equal(t, tt.left != nil, changed, tt.reason)
			if !changed {
				return
			}
			var left []string
			for _, item := range got {
				entry := item.(map[string]any)
				if left = append(left, entry["manager"].(string)); entry["manager"] != manager {
					fields, err := json.Marshal(entry["fieldsV1"])
					require.NoError(t, err)
					require.JSONEq(t, tt.fields, string(fields), tt.reason)
				}
			}
			require.Equal(t, tt.left, left, tt.reason)
		})
	}
}
