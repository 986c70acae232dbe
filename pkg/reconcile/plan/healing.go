package plan

import (
	"cmp"
	"context"
	"time"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/reconcile/limits"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// HealTask returns the task that reverts a change of an object of the manifest, which counts for the budget of contended objects: a task of its own, or the
// one of a reconcile that is still to begin. The task has copies of all that changes meanwhile. ok is false if the heal of a contended object is
// due at a later time, or if a reconcile of the VidraResource decides: then the time is zero.
func (p *Planner) HealTask(ctx context.Context, o *Object, cause trigger.Cause) (t Task, due time.Time, ok bool) {
	t = Task{Why: WhyDrift}
	switch {
	case p.Heals(ctx, o):
	case o != nil && o.Turn.Due() != nil && p.Early(ctx, *o.Turn.Due()):
		t = *o.Turn.Due()
	default:
		return Task{}, time.Time{}, false
	}
	if waits := o.Turn.Due(); waits != nil {
		cause = waits.Cause.Then(cause)
	}
	if cause.Found != nil {
		if _, asks := cause.Found.GetAnnotations()[v1alpha1.BreakGlassUntilAnnotation]; asks {
			return Task{}, time.Time{}, false
		}
	}
	if c := o.Edits.Contention; c.Contended() {
		since := cmp.Or(cause.Since, p.Now)
		at := p.healAt(o, since)
		if !o.Edits.Delayed && (at.After(p.Now) || since.Before(c.Due)) {
			o.Edits.Delayed, c.Delayed = true, true
			p.Env.Metrics.Held(o.ID)
		}
		if at.After(p.Now) {
			return Task{}, at, false
		}
		o.Edits.Delayed = false
	}
	known, entry, d := *o, *o.Entry, *o.Desired
	known.Entry = &entry
	t.Object, t.Known = &d, &known
	return t.With(cause), time.Time{}, true
}

// Early reports whether an edit of the object of a task is answered before the turn of the task: the object was applied, and only other objects
// have the task wait. Webhooks wait in any case: they may refuse the objects before them.
func (p *Planner) Early(ctx context.Context, t Task) bool {
	switch t.Why {
	case WhyDrift:
		return t.Decision.Reverts() && p.Heals(ctx, t.Known)
	case WhyChanged:
		return t.Object.ID.Stage() != manifest.StageWebhooks && p.reverts(ctx, t.Known)
	}
	return false
}

// Heals reports whether a change of an object is reverted without a reconcile of the VidraResource: the object is applied as the
// manifest has it now, nothing is wrong with it, and no policy has the change stay or wait.
func (p *Planner) Heals(ctx context.Context, o *Object) bool {
	return p.reverts(ctx, o) && o.Entry.Configuration == o.Desired.Configuration && !p.outdated(o)
}

// reverts is Heals for an object with any configuration.
func (p *Planner) reverts(ctx context.Context, o *Object) bool {
	if o == nil || o.Desired == nil || !o.In(v1alpha1.ObjectApplied) && !o.In(v1alpha1.ObjectContended) || o.Entry.UID == "" || o.Entry.Configuration == "" || o.Desired.Body == nil {
		return false
	}
	return o.Problem == nil && o.Edits.Drift == nil && o.Entry.BreakGlass == nil && p.decide(o).Reverts() && o.Desired.Weight <= limits.LightWeight &&
		p.State.Watching.Watches[p.Settings.WatchKey(o.Desired.Key)].State != watchregistry.Pending && !p.Terminating(ctx, o.ID.Namespace)
}

// takeHeals takes the causes of the loop of objects that a reconcile decides about, and returns the objects of the others.
func (p *Planner) takeHeals(ctx context.Context) map[trigger.ObjectKey]bool {
	left := map[trigger.ObjectKey]bool{}
	for _, key := range p.Env.Trigger.Heals(p.Settings.Claimant.Owner) {
		if p.Heals(ctx, p.State.Objects.At(key)) {
			left[key] = true
			continue
		}
		if cause, found := p.Env.Trigger.TakeHeal(trigger.Heal{Owner: p.Settings.Claimant.Owner, Key: key}); found {
			if p.Causes.Objects == nil {
				p.Causes.Objects = map[trigger.ObjectKey]trigger.Cause{}
			}
			p.Causes.Objects[key] = cause
			p.State.Objects.At(key).LeaveLoop()
		}
	}
	return left
}
