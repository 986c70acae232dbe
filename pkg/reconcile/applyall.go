package reconcile

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/vidra-operator/vidra/pkg/manifest"
)

// applyAll does the tasks, stage by stage, those of a stage in parallel. An
// object that is not accepted does not keep the others from being applied.
func (p *pass) applyAll(ctx context.Context, tasks []task) {
	eachStage(tasks, func(t task) manifest.Stage { return t.stage }, func(stage []task) {
		for _, batch := range batches(stage) {
			p.applyBatch(ctx, batch)
		}
	})
}

// applyBatch does tasks of a stage in parallel. What the API server answers is in memory
// until all of them are done.
func (p *pass) applyBatch(ctx context.Context, tasks []task) {
	free, err := p.heavy.take(ctx, weightOf(tasks))
	if err != nil { // ctx has ended, and the requests say so
		free = func() {}
	}
	defer free()
	results := make([]result, len(tasks))
	p.applier.parallel(len(tasks), func(i int) { results[i] = p.applier.apply(ctx, tasks[i]) })
	p.replaceAll(ctx, results)
	for _, r := range results {
		p.recordResult(r)
	}
}

// parallel calls do for 0 to n-1, a limited number at a time.
func (a *applier) parallel(n int, do func(i int)) { parallel(a.limit, n, do) }

// parallel calls do for 0 to n-1, limit at a time.
func parallel(limit, n int, do func(i int)) {
	var group errgroup.Group
	group.SetLimit(limit)
	for i := range n {
		group.Go(func() error { do(i); return nil })
	}
	_ = group.Wait() // what failed is in the results
}

func (r *Reconciler) limit() int {
	if r.Parallel > 0 {
		return r.Parallel
	}
	return DefaultParallel
}

// preflightAll looks at the objects that are to be applied for the first time, and
// takes from the plan those that cannot be. What exists and is managed by another writer
// does not enter the inventory: it is not to be removed one day.
func (p *pass) preflightAll(ctx context.Context, todo plan) plan {
	met := make([]task, len(todo.apply))
	errs := make([]error, len(todo.apply))
	p.applier.parallel(len(todo.apply), func(i int) {
		if met[i] = todo.apply[i]; met[i].why == whyNew {
			met[i], errs[i] = p.applier.preflight(ctx, met[i])
		}
	})
	todo.apply = nil
	for i, t := range met {
		if errs[i] == nil {
			todo.apply = append(todo.apply, t)
			continue
		}
		why := explain(errs[i], t.gvk, t.id, t.sensitive)
		t.known.problem = &why
		p.applier.refused(t.known, errs[i], t.key, "get", "patch")
		if refused := new(refusal); errors.As(errs[i], &refused) {
			t.known.entry = nil
		}
		p.state.reread = p.state.reread || kindGone(errs[i], t.id.name)
	}
	return todo
}
