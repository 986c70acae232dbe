package reconcile

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/manifest"
)

// applyAll does the tasks, stage by stage, those of a stage in parallel. An
// object that is not accepted does not keep the others from being applied.
func (p *pass) applyAll(ctx context.Context, tasks []task) {
	for len(tasks) > 0 {
		n := 1
		for n < len(tasks) && tasks[n].stage == tasks[0].stage {
			n++
		}
		results := make([]result, n)
		p.parallel(n, func(i int) { results[i] = p.applier.apply(ctx, tasks[i]) })
		for _, r := range results {
			p.settle(r)
		}
		tasks = tasks[n:]
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
	if r.err != nil {
		p.fail(r, entry)
		return
	}
	delete(s.failures, r.id)
	entry.State = v1alpha1.ObjectApplied
	if r.live == nil {
		return // it was in order
	}
	entry.APIVersion, entry.Kind = r.gvk.GroupVersion().String(), r.gvk.Kind
	entry.UID, entry.Digest = string(r.live.GetUID()), r.digest.String()
	s.applied[r.id] = r.body
	if r.action == "" {
		return
	}
	change := events.Change{Action: r.action, Object: referenceTo(r.id, r.gvk, r.live.GetUID()), Fields: r.fields}
	s.untold = append(s.untold, change)
	switch r.action {
	case events.Restored, events.Recreated, events.Relabelled:
		s.healed(change, p.now)
	case events.Created, events.Configured, events.Pruned, events.Released:
	}
}

// fail notes that a task failed. The object is tried again later.
func (p *pass) fail(r result, entry *v1alpha1.ManagedResourceStatus) {
	s := p.session
	p.retry = true
	s.failures[r.id] = explain(r.err, r.gvk, r.id)
	if r.why == whyDrift {
		p.unsolved[r.key] = r.cause
	}
	entry.State = v1alpha1.ObjectFailed
	switch {
	case kindGone(r.err, r.id.name):
		entry.State = v1alpha1.ObjectPending
		p.Local.Invalidate(r.gvk.Group)
		s.generation = 0 // ask again which kinds there are
	case errors.Is(r.err, errForeign) && entry.UID == "":
		// Somebody else's object is there. It never was ours, and is not to be
		// removed one day.
		delete(s.inventory, r.id)
	}
}

// note notes the objects that cannot be applied because their kind is not
// served. Those whose CustomResourceDefinition has just been applied are only
// waited for.
func (p *pass) note(blocked []*desired) {
	s := p.session
	provided := map[string]bool{}
	for _, d := range s.objects {
		if _, failed := s.failures[d.id]; d.provides.Kind != "" && !failed {
			provided[d.provides.String()] = true
		}
	}
	await := func(id identity, message string) {
		p.retry = true
		reason := v1alpha1.ReasonKindUnavailable
		if provided[id.GroupKind.String()] && s.retries < patience {
			reason, message = v1alpha1.ReasonProgressing, "waits until its CustomResourceDefinition is established"
		}
		s.failures[id] = failure{reason, message}
	}
	if p.all {
		for _, u := range s.unresolved {
			await(u.id, u.err.Error())
		}
	}
	for _, d := range blocked {
		await(d.id, errNotServed(d.gvk).Error())
		if entry := s.inventory[d.id]; entry != nil {
			entry.State = v1alpha1.ObjectPending
		}
	}
}

// pruneAll removes objects, stage by stage, those of a stage in parallel.
func (p *pass) pruneAll(ctx context.Context, ids []identity) {
	s := p.session
	for len(ids) > 0 {
		n := 1
		for n < len(ids) && manifest.StageOf(ids[n].GroupKind) == manifest.StageOf(ids[0].GroupKind) {
			n++
		}
		removals := make([]removal, n)
		p.parallel(n, func(i int) { removals[i] = p.applier.remove(ctx, s.inventory[ids[i]]) })
		for i, done := range removals {
			p.settleRemoval(ids[i], done)
		}
		ids = ids[n:]
	}
}

// settleRemoval notes what came of a removal. An object stays in the inventory
// until it is gone.
func (p *pass) settleRemoval(id identity, done removal) {
	s := p.session
	entry := s.inventory[id]
	change := events.Change{Object: referenceTo(id, gvkOf(entry), "")}
	switch {
	case done.err != nil:
		p.retry = true
		entry.State = v1alpha1.ObjectFailed
		s.failures[id] = failure{v1alpha1.ReasonPruneFailed, "cannot be removed: " + message(done.err, id)}
		return
	case done.deleted:
		p.retry = true
		s.failures[id] = failure{v1alpha1.ReasonProgressing, "is being deleted"}
		if entry.State != v1alpha1.ObjectDeleting {
			entry.State = v1alpha1.ObjectDeleting
			change.Action = events.Pruned
			s.untold = append(s.untold, change)
		}
		return
	case done.released:
		change.Action = events.Released
		s.untold = append(s.untold, change)
	}
	delete(s.inventory, id)
	delete(s.failures, id)
	delete(s.applied, id)
}
