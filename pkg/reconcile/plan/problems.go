package plan

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// ObjectProblems returns the problems of the objects, in their order. pending are those whose
// drift is still to be reverted.
func (s *State) ObjectProblems(pending map[trigger.ObjectKey]trigger.Cause) []v1alpha1.Problem {
	unserved := make(map[object.Identity]schema.GroupVersionKind, len(s.Objects.Unresolved))
	for _, u := range s.Objects.Unresolved {
		unserved[u.ID] = u.GVK
	}
	var all []v1alpha1.Problem
	for _, o := range s.Objects.ordered() {
		gvk, known := unserved[o.ID]
		unreverted := false
		switch {
		case o.Desired != nil:
			gvk = o.Desired.GVK
			_, unreverted = pending[o.Desired.Key]
		case !known && o.Entry != nil:
			gvk = object.GVKOf(o.Entry)
		}
		if o.Problem != nil {
			all = append(all, object.ProblemOf(object.ProblemObject(gvk, o.ID), o.Problem.Reason, o.Problem.Message, v1alpha1.ConditionReady))
		}
		if reason, message, ready := o.drifted(unreverted, s.Inherited.unjudged(o.ID)); reason != "" {
			drift := object.ProblemOf(object.ProblemObject(gvk, o.ID), reason, message, v1alpha1.ConditionDrifted)
			if ready {
				drift.Conditions = append(drift.Conditions, v1alpha1.ConditionReady)
			}
			ends := ready && o.Edits.Drift != nil && !o.Edits.Drift.Decision.Until.IsZero() || !ready && unreverted
			drift.Transient = ends && reason == v1alpha1.ReasonDriftDetected
			all = append(all, drift)
		}
	}
	return all
}

// drifted returns the reason of a difference of the object from the manifest, known or possible, and whether Ready is False
// for it; no reason without one. pending reports that its drift is still to be reverted. inherited is the text of the status before, while that counts.
func (o *Object) drifted(pending bool, inherited string) (reason, message string, ready bool) {
	left := o.Problem == nil && o.In(v1alpha1.ObjectDrifted)
	switch {
	case o.Desired == nil:
		return "", "", false
	case o.Edits.Contention.Contended() && !left:
		ready = o.Problem == nil && o.In(v1alpha1.ObjectContended) && o.Edits.Contention.Delays()
		return v1alpha1.ReasonDriftContended, o.Edits.Contention.Describe(v1alpha1.IgnoreTargetOf(o.ID.GroupKind, o.ID.Namespace, o.ID.Name)), ready
	case left && o.Edits.Drift != nil && !o.Edits.Drift.Unobserved:
		return v1alpha1.ReasonDriftDetected, o.Edits.Drift.Text(), true
	case left:
		return v1alpha1.ReasonDriftDetected, cmp.Or(inherited, "it was changed, and is not reverted"), true
	case pending:
		return v1alpha1.ReasonDriftDetected, "changed and not reverted yet", false
	case o.Edits.Additions != "":
		return v1alpha1.ReasonDriftDetected, o.Edits.Additions, false
	}
	return "", "", false
}

// WarningProblems returns the warnings about the objects of the manifest. Of objects that this
// process is still to apply, the warnings in the status stand. It is never nil.
func (s *State) WarningProblems() []v1alpha1.Problem {
	before := map[v1alpha1.Subject][]v1alpha1.Problem{}
	for _, p := range s.Status.Problems {
		if p.Reason == v1alpha1.ReasonWarned {
			p.Unconfirmed = false // this reconcile knows the object
			before[p.Subject()] = append(before[p.Subject()], p)
		}
	}
	all := []v1alpha1.Problem{}
	for _, o := range s.Objects.Manifest {
		texts := slices.Concat(o.Remarks.Warnings, o.Remarks.Altered.Texts)
		for _, kept := range o.Remarks.Kept {
			texts = append(texts, kept.Text)
		}
		for _, text := range texts {
			all = append(all, object.ProblemOf(object.ProblemObject(o.Desired.GVK, o.ID), v1alpha1.ReasonWarned, display.Truncate(text, object.MaxReason), v1alpha1.ConditionWarnings))
		}
		if len(texts) == 0 && !o.Remarks.Known {
			all = append(all, before[o.ID.Subject()]...)
		}
	}
	return all
}
