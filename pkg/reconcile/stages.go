package reconcile

import (
	"slices"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/manifest"
)

// eachStage calls do for the items of one stage after the other. They are in the order of
// their stages.
func eachStage[T any](items []T, stageOf func(T) manifest.Stage, do func(stage []T)) {
	for len(items) > 0 {
		n := 1
		for n < len(items) && stageOf(items[n]) == stageOf(items[0]) {
			n++
		}
		do(items[:n])
		items = items[n:]
	}
}

// webhooksLast takes new webhooks from a plan while objects wait for a kind that the
// manifest defines: they belong to a stage before, and a webhook may refuse them.
func (p *planner) webhooksLast(todo plan) plan {
	s := p.state
	waits := slices.ContainsFunc(s.unresolved, func(u unresolved) bool {
		return slices.ContainsFunc(s.manifest, func(o *objectState) bool { return o.desired.provides == u.id.GroupKind })
	})
	if !waits || !s.waiting.IsZero() && p.now.Sub(s.waiting) >= crdEstablishTimeout {
		return todo
	}
	todo.apply = slices.DeleteFunc(todo.apply, func(t task) bool {
		last := t.stage == manifest.StageWebhooks && t.why == whyNew
		if last {
			t.known.fail(v1alpha1.ReasonProgressing, "is applied after the objects that wait for their CustomResourceDefinition")
		}
		return last
	})
	return todo
}

// keepUntilApplied removes from ids, which left the manifest, what is not removed yet.
// While an object of the manifest is not applied, an object that left the manifest may
// be the one that it replaces. Only deletions that have begun go on.
func (p *planner) keepUntilApplied(ids []identity) []identity {
	s := p.state
	if len(ids) == 0 { // as in nearly every pass
		return ids
	}
	missing := slices.ContainsFunc(s.unresolved, func(u unresolved) bool { return unapplied(s.objects[u.id]) }) ||
		slices.ContainsFunc(s.manifest, unapplied)
	if !missing {
		return ids
	}
	return slices.DeleteFunc(ids, func(id identity) bool {
		if s.objects[id].in(v1alpha1.ObjectDeleting) {
			return false
		}
		s.objects[id].fail(v1alpha1.ReasonProgressing, "left the manifest, and is removed when all that is in it is applied")
		return true
	})
}

// beingReplaced is the failure of an object that is applied once its deletion has ended.
var beingReplaced = failure{v1alpha1.ReasonProgressing, "is being deleted, and will be created again"}

// unapplied reports whether an object of the manifest is not applied yet, so that what
// left the manifest stays. Two cases do not count, because each may wait for the very
// object that left: an object that another owner keeps as it is, and an object that is
// being deleted, such as a claim that a Pod still uses.
func unapplied(o *objectState) bool {
	if o == nil || o.problem == nil {
		return false
	}
	switch o.problem.reason {
	case v1alpha1.ReasonOwnershipConflict, v1alpha1.ReasonAdoptionRefused:
		return false
	}
	return *o.problem != beingReplaced
}
