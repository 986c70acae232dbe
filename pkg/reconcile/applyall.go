package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/parallel"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/apply"
	"github.com/vidra-operator/vidra/pkg/reconcile/limits"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/policy"
	"github.com/vidra-operator/vidra/pkg/reconcile/progress"
	"github.com/vidra-operator/vidra/pkg/reconcile/status"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// leastTasks is how many tasks an interrupted reconcile begins in any case: a manifest that changes again and again is applied little by little.
const leastTasks = 4

// applyAll does the tasks, stage by stage, the tasks of a stage in parallel. A
// refused object leaves the others to be applied.
func (p *pass) applyAll(ctx context.Context, tasks []plan.Task) {
	if len(tasks) == 0 {
		return
	}
	run := progress.Start(len(tasks), func() error { return p.noteApplying(ctx) }, func(now progress.Report) error { return p.reportProgress(ctx, now) })
	defer run.Stop()
	plan.EachStage(tasks, func(t plan.Task) manifest.Stage { return t.Object.ID.Stage() }, func(stage []plan.Task) {
		for _, batch := range apply.Batches(stage) {
			p.applyBatch(ctx, batch, run)
		}
	})
}

// applyBatch does tasks of a stage in parallel. Each object is released when it is applied, so that its edits wait for it alone. Those
// that are to be replaced wait for the status.
func (p *pass) applyBatch(ctx context.Context, tasks []plan.Task, run *progress.Run) {
	var replaced []apply.Result
	free := func() {}
	p.state.lane.apart(func() {
		if taken, err := p.reconciler.bounds.heavy.Take(ctx, apply.WeightOf(tasks)); err == nil { // otherwise ctx has ended, and the requests say so
			free = taken
		}
		run.While(func() {
			parallel.DoByKey(p.applier.Limit, len(tasks), func(i int) schema.GroupKind { return tasks[i].Object.ID.GroupKind }, func(i int) {
				result, err := p.applyOne(ctx, tasks[i])
				if !errors.Is(err, errInterrupted) {
					status.Count(run, result)
				}
				if err != nil {
					return
				}
				p.state.lane.mu.Lock()
				defer p.state.lane.mu.Unlock()
				if result.Recreation.Delete != nil {
					replaced = append(replaced, result)
					return
				}
				p.end(result)
			})
		})
	})
	defer free()
	p.replaceAll(ctx, replaced)
	for _, result := range replaced {
		p.end(result)
	}
}

// applyOne does a task in a slot, after a running heal of its object. The error is errInterrupted if the reconcile was interrupted before, and errDone if
// that heal did the task.
func (p *pass) applyOne(ctx context.Context, t plan.Task) (result apply.Result, err error) {
	leave := p.slot(ctx, t.Object.Key)
	defer func() { leave(cmp.Or(err, result.Err)) }()
	if p.begun.Add(1) > int64(min(p.applier.Limit, leastTasks)) && p.state.attempt.interrupted.Load() {
		return apply.Result{}, errInterrupted
	}
	now, done := p.await(t)
	if done {
		return apply.Result{}, errDone
	}
	return p.applier.Apply(ctx, now), nil
}

// end records the result of a task, and gives its object back to the loop of objects.
func (p *pass) end(result apply.Result) {
	if result.Err == nil && result.Applied.Live != nil && result.Task.Why == plan.WhyNew && !result.Task.Begun && result.Task.Cause.Found == nil {
		p.finalizer.created = append(p.finalizer.created, result.Task.Object.ID)
	}
	p.recorder().RecordResult(result)
	p.release([]*plan.Object{result.Task.Known})
}

// slot waits for a slot for requests about an object. leave releases it after the last request, with its error.
func (p *pass) slot(ctx context.Context, key trigger.ObjectKey) (leave func(error)) {
	left, err := p.reconciler.bounds.gate.Routine(ctx, trigger.Heal{Owner: p.plan.Settings.Claimant.Owner, Key: key})
	if err != nil { // ctx has ended, and the requests say so
		return func(error) {}
	}
	return func(err error) { left(answerOf(err)) }
}

// errInterrupted and errDone are the errors of tasks that did not begin: the reconcile was interrupted, and the loop of objects has done the task.
var (
	errInterrupted = errors.New("the reconcile was interrupted")
	errDone        = errors.New("the object was applied after an edit")
)

// answerOf returns the knowledge about the API server after a request that ended with an error, or with nil.
func answerOf(err error) limits.Answer {
	switch {
	case errors.Is(err, errInterrupted), errors.Is(err, errDone):
		return limits.NotAsked
	case err == nil, errors.Is(err, apply.ErrForeign), !object.Unanswered(err), object.Denied(err):
		return limits.Answered
	}
	return limits.Unanswered
}

// await waits for the heal of the object of a task, and begins the task, unless the heal has done it or reverted its cause. It is called apart.
func (p *pass) await(t plan.Task) (begun plan.Task, done bool) {
	l := &p.state.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	l.awaitLocked(t.Known)
	t = t.Known.Turn.Begin(t)
	if done = t.Done(p.plan.Now); done {
		p.release([]*plan.Object{t.Known})
	}
	return t.Settled(p.plan.Now), done
}

func (r *Reconciler) limit() int {
	return cmp.Or(r.Options.Parallel, plan.DefaultParallel)
}

// preflightAll reads the objects whose first apply was impossible, and takes from the plan those where it
// still is. So they cost no write until a change, and stay out of the inventory.
func (p *pass) preflightAll(ctx context.Context, todo plan.Plan) plan.Plan {
	met := slices.Clone(todo.Apply) // heals give causes to the tasks meanwhile
	errs := make([]error, len(todo.Apply))
	p.applier.ParallelKinds(len(met), func(i int) object.Identity { return met[i].Object.ID }, func(i int) {
		if met[i].Why == plan.WhyNew && (met[i].Known.Problem != nil || met[i].Known.Seen.Foreign) {
			leave := p.slot(ctx, met[i].Object.Key)
			defer func() { leave(errs[i]) }()
			met[i], errs[i] = p.applier.Preflight(ctx, met[i])
		}
	})
	todo.Apply = nil
	for i, t := range met {
		switch {
		case errs[i] == nil:
			todo.Apply = append(todo.Apply, t)
		case errors.Is(errs[i], apply.ErrForeign):
			t.Known.Leave()
		default:
			p.recorder().RecordFailure(apply.Result{Task: t, Err: errs[i], Shown: t.Object.Disclosure(t.Known.WasSensitive(), t.Cause.Found)})
		}
	}
	return todo
}

// skipAll records the changes of another writer while the manifest is unreadable: the wanted
// objects are unknown, so the objects are compared with their last applied state, and left
// as they are. Failures are compared again when the manifest can be read.
func (p *pass) skipAll(ctx context.Context, why object.Failure) {
	decision := policy.OfUnreadable(p.plan.VR, why.Reason)
	var tasks []plan.Task
	for _, o := range p.state.plan.Objects.Manifest {
		d, entry := o.Desired, o.Entry
		cause, changed := p.plan.Causes.Objects[d.Key]
		if changed && entry != nil && entry.UID != "" && entry.Configuration == d.Configuration && d.Key.Cluster == p.applier.Destination.Name() &&
			access.ObjectOutOfScope(p.applier.Settings.Allowed, o.ID) == nil {
			tasks = append(tasks, plan.Task{Object: d, Known: o, Why: plan.WhyDrift, Cause: cause, Decision: decision})
		}
	}
	results, errs := make([]apply.Result, len(tasks)), make([]error, len(tasks))
	p.applier.ParallelKinds(len(tasks), func(i int) object.Identity { return tasks[i].Object.ID }, func(i int) { results[i], errs[i] = p.applyOne(ctx, tasks[i]) })
	for i, r := range results {
		if cmp.Or(errs[i], r.Err) == nil {
			delete(p.plan.Findings.PendingDrift, r.Task.Object.Key)
			p.recorder().RecordResult(r)
		}
	}
}

// replaceAll deletes the objects of a stage that are to be created anew, if the VidraResource is as it was read. The status reports
// it before, so that each is deleted only once, even if Vidra is restarted in between. The comparison of the VidraResource is the last step before.
func (p *pass) replaceAll(ctx context.Context, results []apply.Result) {
	if len(results) == 0 {
		return
	}
	before := make([]*v1alpha1.RecreatedStatus, len(results))
	for i, r := range results {
		before[i] = r.Task.Known.Entry.Recreated
		r.Task.Known.Entry.Recreated = &v1alpha1.RecreatedStatus{Configuration: r.Task.Object.Configuration, UID: string(r.Recreation.Delete.GetUID())}
	}
	var err error
	if why := p.tooLarge(); why != nil {
		err = errors.New(why.Message)
	} else {
		err = p.writeInventory(ctx)
	}
	if err == nil { // the write may have taken long
		p.state.lane.apart(func() { err = p.stale(ctx) })
	}
	if err != nil {
		err = fmt.Errorf("it is not deleted now: %w", err)
	}
	p.applier.Parallel(len(results), func(i int) {
		r := &results[i]
		if r.Err = err; r.Err != nil {
			return
		}
		if p.applier.Settings.Watched {
			p.reconciler.Watching.Index.ExpectRemoval(p.plan.Settings.Claimant.Owner, r.Task.Object.Key)
		}
		r.Err = p.applier.Delete(ctx, r.Task.Object.Key, r.Recreation.Delete)
	})
	for i, r := range results {
		if err != nil || r.Err != nil && !object.Unanswered(r.Err) { // it is not deleted
			r.Task.Known.Entry.Recreated = before[i]
		}
	}
}
