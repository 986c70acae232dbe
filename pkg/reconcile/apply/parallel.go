package apply

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/internal/recovery"
	"github.com/vidra-operator/vidra/pkg/reconcile/limits"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Parallel calls do for 0 to n-1, a limited number at a time, apart from the state of the VidraResource.
func (a *Applier) Parallel(n int, do func(i int)) {
	a.apart(n, func() { Parallel(a.Limit, n, do) })
}

// ParallelKinds is ParallelKinds with the limit of the Applier, apart from the state of the VidraResource. Each call has to wait for a slot, see Enter.
func (a *Applier) ParallelKinds(n int, id func(i int) object.Identity, do func(i int)) {
	a.apart(n, func() { ParallelKinds(a.Limit, n, id, do) })
}

// apart calls a function about n objects apart from the state of the VidraResource, if there are any.
func (a *Applier) apart(n int, do func()) {
	switch {
	case n == 0:
	case a.Apart == nil:
		do()
	default:
		a.Apart(do)
	}
}

// ParallelKinds calls do for n objects, limit of each kind at a time: a kind that stalls holds up no other kind.
func ParallelKinds(limit, n int, id func(i int) object.Identity, do func(i int)) {
	var kinds [][]int
	place := map[schema.GroupKind]int{}
	for i := range n {
		kind := id(i).GroupKind
		at, known := place[kind]
		if !known {
			at, kinds = len(kinds), append(kinds, nil)
			place[kind] = at
		}
		kinds[at] = append(kinds[at], i)
	}
	Parallel(len(kinds), len(kinds), func(k int) {
		Parallel(limit, len(kinds[k]), func(i int) { do(kinds[k][i]) })
	})
}

// Parallel calls do for 0 to n-1, limit at a time, and begins the calls in this order. It panics after all of them as the first that does.
func Parallel(limit, n int, do func(i int)) {
	if n == 1 { // as in most heals: it need not wait until a goroutine is scheduled
		do(0)
		return
	}
	var group errgroup.Group
	group.SetLimit(limit)
	var caught recovery.Panic
	var begun atomic.Int64
	for range n {
		group.Go(func() error {
			defer caught.Catch()
			do(int(begun.Add(1) - 1)) // goroutines begin in any order
			return nil
		})
	}
	_ = group.Wait() // failures are in the results
	caught.Raise()
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

// Enter waits for a slot for requests of a reconcile about an object. leave releases it after the last request, with its error.
func (a *Applier) Enter(ctx context.Context, key trigger.ObjectKey) (leave func(error)) {
	if a.Slot == nil {
		return func(error) {}
	}
	return a.Slot(ctx, key)
}
