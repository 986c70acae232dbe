package ownership

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestShared gives the fields of a manager to another one, too.
func TestShared(t *testing.T) {
	entry := func(manager, operation string) map[string]any {
		return map[string]any{"manager": manager, "operation": operation, "fieldsV1": map[string]any{
			"f:data": map[string]any{"f:a": map[string]any{}}, "f:metadata": map[string]any{"f:labels": map[string]any{"f:ours": map[string]any{}, "f:app": map[string]any{}}},
		}}
	}
	tests := map[string]struct {
		reason  string
		entries []any
		changed bool
	}{
		"shared":            {"both own the fields", []any{entry("ours", "Apply")}, true},
		"other operation":   {"it is another entry", []any{entry("ours", "Apply"), entry("theirs", "Update")}, true},
		"it has an entry":   {"a second run changes nothing", []any{entry("ours", "Apply"), entry("theirs", "Apply")}, false},
		"nothing is shared": {"an update is no apply", []any{entry("ours", "Update")}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"managedFields": tt.entries}}}
			before := u.DeepCopy()
			got, changed := Shared(u, "ours", "theirs", metav1.ManagedFieldsOperationApply, []string{"metadata", "labels", "ours"})
			require.Equal(t, tt.changed, changed, tt.reason)
			require.Equal(t, before, u, "the object stays as it is")
			if !changed {
				require.Equal(t, tt.entries, got)
				return
			}
			require.Equal(t, tt.entries, got[:len(tt.entries)])
			given, _ := got[len(tt.entries)].(map[string]any)
			require.Equal(t, []any{"theirs", "Apply"}, []any{given["manager"], given["operation"]})
			labels, _, _ := unstructured.NestedMap(given, "fieldsV1", "f:metadata", "f:labels")
			require.Equal(t, map[string]any{"f:app": map[string]any{}}, labels, "the marks stay with their owner")
		})
	}
}
