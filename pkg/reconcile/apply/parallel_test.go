package apply

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/limits"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
)

// TestBatches shows how many objects are applied at a time.
func TestBatches(t *testing.T) {
	t.Parallel()
	const half = limits.BatchWeight / 2
	for name, tc := range map[string]struct {
		reason  string
		weights []int64
		want    []int
	}{
		"None":     {"There is nothing to do.", nil, nil},
		"Ordinary": {"Light objects go together.", []int64{1000, 1000, 1000}, []int{3}},
		"Fit":      {"The limit itself is allowed.", []int64{half, half}, []int{2}},
		"Large":    {"Beyond it a batch is cut.", []int64{half, half, 1, half, half}, []int{2, 2, 1}},
		"TooLarge": {"An object that is larger goes alone.", []int64{1, 3 * half, 3 * half, 1}, []int{1, 1, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var tasks []plan.Task
			for _, weight := range tc.weights {
				tasks = append(tasks, plan.Task{Object: &desired.Object{Weight: weight}})
			}
			var got []int
			for _, batch := range Batches(tasks) {
				got = append(got, len(batch))
			}
			require.Equal(t, tc.want, got, tc.reason)
		})
	}
}
