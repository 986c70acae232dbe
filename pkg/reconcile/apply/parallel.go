package apply

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/internal/parallel"
	"github.com/vidra-operator/vidra/pkg/reconcile/limits"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
)

// Parallel calls do for 0 to n-1, a limited number at a time, apart from the state of the VidraResource.
func (a *Applier) Parallel(n int, do func(i int)) {
	a.apart(n, func() { parallel.Do(a.Limit, n, do) })
}

// ParallelKinds is Parallel with the limit for each kind: a kind that stalls holds up no other kind. Each call has to wait for a slot.
func (a *Applier) ParallelKinds(n int, id func(i int) object.Identity, do func(i int)) {
	a.apart(n, func() { parallel.DoByKey(a.Limit, n, func(i int) schema.GroupKind { return id(i).GroupKind }, do) })
}

// apart calls a function about n objects apart from the state of the VidraResource, if there are any.
func (a *Applier) apart(n int, do func()) {
	if n > 0 {
		a.Apart(do)
	}
}

// Batches cuts tasks into pieces of at most limits.BatchWeight, or of one task.
func Batches(tasks []plan.Task) (all [][]plan.Task) {
	weight := int64(0)
	for i, t := range tasks {
		if weight += t.Object.Weight; i == 0 || weight > limits.BatchWeight {
			all, weight = append(all, nil), t.Object.Weight
		}
		all[len(all)-1] = append(all[len(all)-1], t)
	}
	return all
}

// WeightOf is the weight of tasks while they are done.
func WeightOf(tasks []plan.Task) int64 {
	weight := int64(0)
	for _, t := range tasks {
		weight += limits.ApplyFactor * t.Object.Weight
	}
	return weight
}
