package apply

import (
	"context"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/tracing"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Applier applies the objects of one VidraResource. It is safe for concurrent
// use on different objects.
type Applier struct {
	Settings    *plan.Settings
	Destination access.Destination
	// Client reads and writes the objects, as Vidra itself or as a ServiceAccount. It is
	// made by access.Accounts.ClientOf, and nil until the destination is connected.
	Client dynamic.Interface
	// User is the user that Client impersonates; empty for Vidra itself.
	User    string
	Trigger *trigger.Factory
	Index   *trigger.Index
	// Finder finds the other VidraResources that own an object.
	Finder *owners.Finder
	// Limit is how many objects of a kind in a stage are applied or removed at a time.
	Limit int
	// Slot waits for a slot for requests of a reconcile about an object. leave releases it after the last request, with its error. Optional.
	Slot func(ctx context.Context, key trigger.ObjectKey) (leave func(error))
	// LeftShard reports whether another shard reconciles the VidraResource by now, which changes the labels of its objects. Nil where shards are unused.
	LeftShard func(ctx context.Context) (bool, error)
	// Apart calls a function that sends requests, while heals may change the state of the VidraResource. Optional.
	Apart func(do func())
	// Orphans reports that removed objects are left in place.
	Orphans bool
}

// Apply does a task: it gathers the knowledge, runs the procedure, and records the result.
func (a *Applier) Apply(ctx context.Context, t plan.Task) (done Result) {
	ctx, span := tracing.Object(ctx, "apply object", t.Object.ID)
	defer func() { span.Done(string(done.Change.Action), done.Err) }()
	p, err := a.prepare(ctx, t)
	if err != nil {
		return Result{Task: p.known.task, End: Failed, Err: err, Shown: p.known.disclosureWith()}
	}
	k := p.known
	ctx, warnings := withWarnings(ctx)
	began := time.Now()
	p.run(ctx)
	answered := time.Now()
	if p.outcome.end == Applied && p.known.task.Object.Ignored == nil && p.known.task.Why != plan.WhyDrift { // a heal asks nothing beside its apply
		p.outcome.altered = a.alteredBy(ctx, p.known.task.Object, p.outcome.live)
	}
	done = a.record(p, warnings.all())
	if done.Began, done.Answered = began, answered; done.End == Failed && k.unmet() {
		done.End = Unmet
	}
	if done.Applied.Live != nil && t.Why != plan.WhyDrift { // a healed object was applied before
		if aggregated, err := a.Destination.Aggregated(ctx, t.Object.GVK.GroupVersion()); err == nil { // otherwise the next apply asks
			done.Applied.Aggregated = &aggregated
		}
	}
	return done
}

// maxGathered is how often the knowledge of a task is gathered at most.
const maxGathered = 8

// prepare gathers the knowledge of a task and begins it. The procedure would overwrite the edits that events have shown since the plan: the knowledge
// is gathered again, with them.
func (a *Applier) prepare(ctx context.Context, t plan.Task) (*procedure, error) {
	for n := 1; ; n++ {
		k, err := a.gather(ctx, t)
		p := newProcedure(k, calls{a, t.Object.Key})
		if err != nil {
			return p, err
		}
		p.outcome.end = p.judge()
		if !a.begin(p) || t.Why != plan.WhyChanged && t.Why != plan.WhyDrift || n == maxGathered { // the others have read the object
			return p, nil
		}
		later, found := a.Trigger.TakeCause(trigger.Heal{Owner: a.Settings.Claimant.Owner, Key: t.Object.Key})
		if !found {
			return p, nil
		}
		a.Trigger.Abort(a.Settings.Claimant.Owner, t.Object.Key)
		t = t.With(k.task.Cause.Then(later))
	}
}
