package reconcile

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/trigger"
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
	giveBack, err := p.heavy.take(ctx, weightOf(tasks))
	if err != nil { // ctx has ended, and the requests say so
		giveBack = func() {}
	}
	defer giveBack()
	results := make([]result, len(tasks))
	p.parallel(len(tasks), func(i int) { results[i] = p.applier.apply(ctx, tasks[i]) })
	p.replaceAll(ctx, results)
	for _, r := range results {
		p.settle(r)
	}
}

// parallel calls do for 0 to n-1, a limited number at a time.
func (r *Reconciler) parallel(n int, do func(i int)) {
	var group errgroup.Group
	group.SetLimit(r.limit())
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

// settle notes what came of a task.
func (p *pass) settle(r result) {
	o := r.known
	entry := o.entry
	switch {
	case r.err != nil:
		p.fail(r)
		return
	case r.left != nil:
		p.settleObserved(r)
		return
	}
	o.problem = nil
	p.heard(r)
	p.noteAdditions(r)
	if r.replaced != "" {
		p.settleRecreation(r)
	}
	switch {
	case r.ending && r.why != whyDrift, r.replaced != "":
		o.problem = &beingReplaced
		return
	case r.ending: // its end will be an event
		return
	case r.asLeft && r.live == nil: // nothing has changed since it was left
		return
	}
	o.drift = nil
	p.noteAnswer(o, r.glass)
	if r.cause.Found != nil {
		o.seen(r.cause.Found)
	}
	entry.State = v1alpha1.ObjectApplied
	if o.contention.contended() {
		entry.State = v1alpha1.ObjectContended
	}
	if r.live == nil {
		return // it was in order
	}
	entry.APIVersion, entry.Kind = r.gvk.GroupVersion().String(), r.gvk.Kind
	entry.UID, entry.Digest = string(r.live.GetUID()), trigger.DigestOf(r.live, p.applier.manager, false, nil).String()
	entry.Configuration = r.configuration
	if entry.Recreated != nil && entry.Recreated.Configuration != r.configuration {
		entry.Recreated = nil
	}
	if o.sealed == nil && ownership.Sensitive(r.live) { // others may have marked it
		o.sealed = &sealedEntry{}
	}
	o.seen(r.live)
	p.tell(r)
}

// tell notes what an apply did, to be told when the status says so.
func (p *pass) tell(r result) {
	s := p.state
	note := func(action events.Action, fields []ownership.Change, problem string) events.Change {
		change := events.Change{Action: action, Object: referenceTo(r.id, r.gvk, r.live.GetUID()), Fields: fields, Note: problem}
		s.untold = append(s.untold, change)
		return change
	}
	switch r.action {
	case "":
	case events.Restored, events.Recreated, events.Relabelled:
		s.healed(note(r.action, r.fields, r.glass.problem()), p.now, r.known.contention.toldLater())
		p.Metrics.healed(r.id, r.action)
		p.contend(r)
	case events.Created, events.Configured, events.Replaced, events.Pruned, events.Released, events.Orphaned,
		events.Detected, events.Contended, events.Settled, events.Answered:
		note(r.action, nil, "")
	}
	if len(r.reverted) > 0 {
		s.healed(note(events.Restored, r.reverted, r.glass.problem()), p.now, 0)
		p.Metrics.healed(r.id, events.Restored)
	}
}

// fail notes that a task failed. The object is tried again later.
func (p *pass) fail(r result) {
	o, entry := r.known, r.known.entry
	why := explain(r.err, r.gvk, r.id, r.sensitive)
	o.problem = &why
	p.refused(o, r.err, r.key, "get", "patch", "create", "delete")
	if r.why == whyDrift {
		p.unsolved[r.key] = r.cause
		if why.reason == v1alpha1.ReasonManifestInvalid {
			// The same configuration was accepted before.
			why.reason = v1alpha1.ReasonApplyFailed
			why.message += ". It was accepted before: a field that another field manager added may be in the way"
		}
	}
	entry.State = v1alpha1.ObjectFailed
	if refused := new(refusal); errors.As(r.err, &refused) {
		o.entry = nil // it was made by somebody else after it was looked for
	}
	if kindGone(r.err, r.id.name) {
		entry.State = v1alpha1.ObjectPending
		p.applier.destination.Invalidate(r.gvk.Group)
		p.state.reread = true
	}
}

// meetAll looks at the objects that are to be applied for the first time, and
// takes from the plan those that cannot be. What exists and is somebody else's
// does not enter the inventory: it is not to be removed one day.
func (p *pass) meetAll(ctx context.Context, todo plan) plan {
	met := make([]task, len(todo.apply))
	errs := make([]error, len(todo.apply))
	p.parallel(len(todo.apply), func(i int) {
		if met[i] = todo.apply[i]; met[i].why == whyNew {
			met[i], errs[i] = p.applier.meet(ctx, met[i])
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
		p.refused(t.known, errs[i], t.key, "get", "patch")
		if refused := new(refusal); errors.As(errs[i], &refused) {
			t.known.entry = nil
		}
		p.state.reread = p.state.reread || kindGone(errs[i], t.id.name)
	}
	return todo
}

// note notes the objects that are not applied by this pass: those whose kind is
// not served, and those that failed and have to wait. A kind whose
// CustomResourceDefinition is in the same manifest is waited for in silence.
func (p *pass) note(todo plan) {
	s := p.state
	provided := map[schema.GroupKind]bool{}
	for _, o := range s.manifest {
		if o.desired.provides.Kind != "" && o.problem == nil {
			provided[o.desired.provides] = true
		}
	}
	waits := false
	await := func(o *objectState, why failure) {
		if why.reason == v1alpha1.ReasonKindUnavailable && provided[o.id.GroupKind] {
			waits = true
			if s.waiting.IsZero() {
				s.waiting = p.now
			}
			if p.now.Sub(s.waiting) < patience {
				why = failure{v1alpha1.ReasonProgressing, "waits until its CustomResourceDefinition is established"}
			}
		}
		o.problem = &why
	}
	for _, u := range s.unresolved {
		await(s.track(u.id), u.why)
		for o := range s.all() {
			if o.entry != nil && u.is(o.id) {
				o.entry.State = v1alpha1.ObjectPending
			}
		}
	}
	for _, o := range todo.blocked {
		await(o, *notServed(o.desired.gvk))
		if o.entry != nil {
			o.entry.State = v1alpha1.ObjectPending
		}
	}
	for _, o := range todo.terminating {
		o.problem = terminatingNamespace(o.id)
		if o.entry != nil {
			o.entry.State = v1alpha1.ObjectPending
		}
	}
	for _, o := range todo.held {
		if cause, drifted := p.causes.Objects[o.desired.key]; drifted {
			p.unsolved[o.desired.key] = cause
		}
	}
	if p.scope.all && !waits {
		s.waiting = time.Time{}
	}
}

// pruneAll removes objects, stage by stage, those of a stage in parallel.
func (p *pass) pruneAll(ctx context.Context, ids []identity) {
	if len(ids) == 0 { // as in nearly every pass
		return
	}
	p.applier.spared = p.spare(ctx, ids)
	defer p.endRemoval(ids)
	eachStage(ids, identity.stage, func(stage []identity) {
		removals := make([]removal, len(stage))
		p.parallel(len(stage), func(i int) {
			if entry := p.state.objects[stage[i]].entry; p.stillThere(ctx, entry) {
				removals[i] = removal{deleted: true}
			} else {
				removals[i] = p.applier.remove(ctx, entry)
			}
		})
		p.settleStage(ctx, stage, removals)
	})
}

// stillThere says whether an object whose deletion was accepted is seen by its
// watch, which saves asking for it. It is asked for when it is time to retry.
func (p *pass) stillThere(ctx context.Context, entry *v1alpha1.ManagedResourceStatus) bool {
	if entry.State != v1alpha1.ObjectDeleting || p.scope.retry || !p.applier.watched {
		return false
	}
	mapping, err := p.applier.destination.Mapping(ctx, gvkOf(entry))
	if err != nil {
		return false
	}
	_, found, synced := p.Watches.Get(p.watchOf(mapping), entry.Namespace, entry.Name)
	return found && synced
}

// settleRemoval notes what came of a removal. An object stays in the inventory
// until it is gone.
func (p *pass) settleRemoval(ctx context.Context, o *objectState, done removal) {
	entry := o.entry
	change := events.Change{Object: referenceTo(o.id, gvkOf(entry), "")}
	p.noteAnswer(o, done.glass)
	if !done.missing {
		o.kindGoneSince = time.Time{}
	}
	switch {
	case done.missing && !p.missingForGood(o):
		// An API server that has just started serves some kinds a little later.
		o.fail(v1alpha1.ReasonProgressing, "is being removed, but its kind is not served at present")
		return
	case apierrors.IsForbidden(done.err) && p.namespaceIsGone(ctx, o.id.namespace):
		// The rights of an account in it went along, and so did the object.
	case done.held != "":
		if exempts(done.glass.answer, p.now) && (p.heldUntil.IsZero() || done.glass.answer.Until.Time.Before(p.heldUntil)) {
			p.heldUntil = done.glass.answer.Until.Time
		}
		o.fail(v1alpha1.ReasonProgressing, done.held)
		return
	case done.err != nil:
		if entry.State != v1alpha1.ObjectDeleting { // which it goes on doing
			entry.State = v1alpha1.ObjectFailed
		}
		p.refused(o, done.err, done.key, "get", "patch", "delete")
		o.fail(v1alpha1.ReasonPruneFailed, "cannot be removed: "+message(done.err, done.sensitive))
		return
	case done.deleted:
		switch {
		case done.waitsFor != "":
			o.fail(v1alpha1.ReasonProgressing, "is being deleted, and waits for "+events.Truncate(done.waitsFor, maxMessage))
		case entry.State != v1alpha1.ObjectDeleting, o.problem == nil: // otherwise nobody asked again
			o.fail(v1alpha1.ReasonProgressing, "is being deleted")
		}
		entry.State = v1alpha1.ObjectDeleting
		return
	}
	switch {
	case done.orphaned:
		change.Action = events.Orphaned
	case done.released:
		change.Action = events.Released
	case entry.State == v1alpha1.ObjectDeleting, p.first && done.absent && entry.UID != "": // a Vidra before this one may have deleted it
		change.Action = events.Pruned
	}
	if change.Action != "" {
		p.state.untold = append(p.state.untold, change)
	}
	o.entry, o.problem, o.kindGoneSince = nil, nil, time.Time{}
}

// missingForGood says whether the kind of an object has not been served for so
// long that the object is gone with it.
func (p *pass) missingForGood(o *objectState) bool {
	if o.kindGoneSince.IsZero() {
		o.kindGoneSince = p.now
		return false
	}
	return p.now.Sub(o.kindGoneSince) >= goneForGood
}
