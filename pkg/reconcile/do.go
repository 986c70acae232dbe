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
func (p *pass) parallel(n int, do func(i int)) {
	var group errgroup.Group
	group.SetLimit(p.limit())
	for i := range n {
		group.Go(func() error { do(i); return nil })
	}
	_ = group.Wait() // what failed is in the results
}

func (p *pass) limit() int {
	if p.Parallel > 0 {
		return p.Parallel
	}
	return DefaultParallel
}

// settle notes what came of a task.
func (p *pass) settle(r result) {
	s := p.session
	entry := s.inventory[r.id]
	switch {
	case r.err != nil:
		p.fail(r, entry)
		return
	case r.left != nil:
		p.settleObserved(r)
		return
	}
	delete(s.failures, r.id)
	p.heard(r)
	p.noteAdditions(r)
	if r.replaced != "" {
		p.settleRecreation(r)
	}
	switch {
	case r.ending && r.why != whyDrift, r.replaced != "":
		s.failures[r.id] = beingReplaced
		return
	case r.ending: // its end will be an event
		return
	case r.asLeft && r.live == nil: // nothing has changed since it was left
		return
	}
	delete(s.drifts, r.id)
	p.noteAnswer(r.id, r.glass)
	if r.cause.Found != nil {
		p.seen(r.id, r.cause.Found)
	}
	entry.State = v1alpha1.ObjectApplied
	if s.contentions[r.id].contended() {
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
	if _, is := s.sealed[r.id]; !is && ownership.Sensitive(r.live) { // others may have marked it
		s.sealed[r.id] = &sealedEntry{}
	}
	p.seen(r.id, r.live)
	p.tell(r)
}

// tell notes what an apply did, to be told when the status says so.
func (p *pass) tell(r result) {
	s := p.session
	note := func(action events.Action, fields []ownership.Change, problem string) events.Change {
		change := events.Change{Action: action, Object: referenceTo(r.id, r.gvk, r.live.GetUID()), Fields: fields, Note: problem}
		s.untold = append(s.untold, change)
		return change
	}
	switch r.action {
	case "":
	case events.Restored, events.Recreated, events.Relabelled:
		s.healed(note(r.action, r.fields, r.glass.problem()), p.now, s.contentions[r.id].toldLater())
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
func (p *pass) fail(r result, entry *v1alpha1.ManagedResourceStatus) {
	s := p.session
	s.failures[r.id] = explain(r.err, r.gvk, r.id, r.sensitive)
	p.refused(r.id, r.err, r.key, "get", "patch", "create", "delete")
	if r.why == whyDrift {
		p.unsolved[r.key] = r.cause
		if why := s.failures[r.id]; why.reason == v1alpha1.ReasonManifestInvalid {
			// The same configuration was accepted before.
			why.reason = v1alpha1.ReasonApplyFailed
			why.message += ". It was accepted before: a field that another field manager added may be in the way"
			s.failures[r.id] = why
		}
	}
	entry.State = v1alpha1.ObjectFailed
	if refused := new(refusal); errors.As(r.err, &refused) {
		delete(s.inventory, r.id) // it was made by somebody else after it was looked for
	}
	if kindGone(r.err, r.id.name) {
		entry.State = v1alpha1.ObjectPending
		p.applier.destination.Invalidate(r.gvk.Group)
		s.reread = true
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
		p.session.failures[t.id] = explain(errs[i], t.gvk, t.id, t.sensitive)
		p.refused(t.id, errs[i], t.key, "get", "patch")
		if refused := new(refusal); errors.As(errs[i], &refused) {
			delete(p.session.inventory, t.id)
		}
		p.session.reread = p.session.reread || kindGone(errs[i], t.id.name)
	}
	return todo
}

// note notes the objects that are not applied by this pass: those whose kind is
// not served, and those that failed and have to wait. A kind whose
// CustomResourceDefinition is in the same manifest is waited for in silence.
func (p *pass) note(todo plan) {
	s := p.session
	provided := map[schema.GroupKind]bool{}
	for _, d := range s.objects {
		if _, failed := s.failures[d.id]; d.provides.Kind != "" && !failed {
			provided[d.provides] = true
		}
	}
	waits := false
	await := func(id identity, why failure) {
		if why.reason == v1alpha1.ReasonKindUnavailable && provided[id.GroupKind] {
			waits = true
			if s.waiting.IsZero() {
				s.waiting = p.now
			}
			if p.now.Sub(s.waiting) < patience {
				why = failure{v1alpha1.ReasonProgressing, "waits until its CustomResourceDefinition is established"}
			}
		}
		s.failures[id] = why
	}
	for _, u := range s.unresolved {
		await(u.id, u.why)
		for id, entry := range s.inventory {
			if u.is(id) {
				entry.State = v1alpha1.ObjectPending
			}
		}
	}
	for _, d := range todo.blocked {
		await(d.id, *notServed(d.gvk))
		if entry := s.inventory[d.id]; entry != nil {
			entry.State = v1alpha1.ObjectPending
		}
	}
	for _, d := range todo.terminating {
		s.failures[d.id] = *terminatingNamespace(d.id)
		if entry := s.inventory[d.id]; entry != nil {
			entry.State = v1alpha1.ObjectPending
		}
	}
	for _, d := range todo.held {
		if cause, drifted := p.causes.Objects[d.key]; drifted {
			p.unsolved[d.key] = cause
		}
	}
	if p.all && !waits {
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
			if entry := p.session.inventory[stage[i]]; p.stillThere(ctx, entry) {
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
	if entry.State != v1alpha1.ObjectDeleting || p.mayRetry || !p.applier.watched {
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
func (p *pass) settleRemoval(ctx context.Context, id identity, done removal) {
	s := p.session
	entry := s.inventory[id]
	change := events.Change{Object: referenceTo(id, gvkOf(entry), "")}
	p.noteAnswer(id, done.glass)
	if !done.missing {
		delete(s.missing, id)
	}
	switch {
	case done.missing && !p.missingForGood(id):
		// An API server that has just started serves some kinds a little later.
		s.failures[id] = failure{v1alpha1.ReasonProgressing, "is being removed, but its kind is not served at present"}
		return
	case apierrors.IsForbidden(done.err) && p.namespaceIsGone(ctx, id.namespace):
		// The rights of an account in it went along, and so did the object.
	case done.held != "":
		if exempts(done.glass.answer, p.now) && (p.heldUntil.IsZero() || done.glass.answer.Until.Time.Before(p.heldUntil)) {
			p.heldUntil = done.glass.answer.Until.Time
		}
		s.failures[id] = failure{v1alpha1.ReasonProgressing, done.held}
		return
	case done.err != nil:
		if entry.State != v1alpha1.ObjectDeleting { // which it goes on doing
			entry.State = v1alpha1.ObjectFailed
		}
		p.refused(id, done.err, done.key, "get", "patch", "delete")
		s.failures[id] = failure{v1alpha1.ReasonPruneFailed, "cannot be removed: " + message(done.err, done.sensitive)}
		return
	case done.deleted:
		_, known := s.failures[id]
		switch {
		case done.waitsFor != "":
			s.failures[id] = failure{v1alpha1.ReasonProgressing,
				"is being deleted, and waits for " + events.Truncate(done.waitsFor, maxMessage)}
		case entry.State != v1alpha1.ObjectDeleting, !known: // otherwise nobody asked again
			s.failures[id] = failure{v1alpha1.ReasonProgressing, "is being deleted"}
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
		s.untold = append(s.untold, change)
	}
	delete(s.inventory, id)
	delete(s.failures, id)
	delete(s.missing, id)
}

// missingForGood says whether the kind of an object has not been served for so
// long that the object is gone with it.
func (p *pass) missingForGood(id identity) bool {
	since, known := p.session.missing[id]
	if !known {
		p.session.missing[id] = p.now
		return false
	}
	return p.now.Sub(since) >= goneForGood
}
