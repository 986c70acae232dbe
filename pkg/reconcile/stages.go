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
func (p *pass) webhooksLast(todo plan) plan {
	s := p.session
	waits := slices.ContainsFunc(s.unresolved, func(u unresolved) bool {
		return slices.ContainsFunc(s.objects, func(d *desired) bool { return d.provides == u.id.GroupKind })
	})
	if !waits || !s.waiting.IsZero() && p.now.Sub(s.waiting) >= patience {
		return todo
	}
	todo.apply = slices.DeleteFunc(todo.apply, func(t task) bool {
		last := t.stage == manifest.StageWebhooks && t.why == whyNew
		if last {
			s.failures[t.id] = failure{v1alpha1.ReasonProgressing, "is applied after the objects that wait for their CustomResourceDefinition"}
		}
		return last
	})
	return todo
}

// keepUntilApplied takes from what left the manifest what is not removed yet: while an
// object of the manifest cannot be applied, it may be what takes the place of another
// one, so that only what is on its way out goes.
func (p *pass) keepUntilApplied(ids []identity) []identity {
	s := p.session
	if len(ids) == 0 { // as in nearly every pass
		return ids
	}
	missing := slices.ContainsFunc(s.unresolved, func(u unresolved) bool { return s.unapplied(u.id) }) ||
		slices.ContainsFunc(s.objects, func(d *desired) bool { return s.unapplied(d.id) })
	if !missing {
		return ids
	}
	return slices.DeleteFunc(ids, func(id identity) bool {
		if s.inventory[id].State == v1alpha1.ObjectDeleting {
			return false
		}
		s.failures[id] = failure{v1alpha1.ReasonProgressing, "left the manifest, and is removed when all that is in it is applied"}
		return true
	})
}

// unapplied says whether an object could not be applied, though it is Vidra's to apply.
// What others own is there, as they want it: that may stay so for good, and two
// VidraResources may each wait for what the other one is about to remove.
func (s *session) unapplied(id identity) bool {
	switch s.failures[id].reason {
	case v1alpha1.ReasonApplyFailed, v1alpha1.ReasonManifestInvalid, v1alpha1.ReasonKindUnavailable, v1alpha1.ReasonNamespaceTerminating:
		return true
	}
	return false
}
