package reconcile

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// objectProblems returns the problems of the objects, in their order. pending are those whose
// drift is still to be reverted.
func (s *vrState) objectProblems(pending map[trigger.ObjectKey]trigger.Cause) []v1alpha1.Problem {
	unserved := make(map[identity]schema.GroupVersionKind, len(s.unresolved))
	for _, u := range s.unresolved {
		unserved[u.id] = u.gvk
	}
	var all []v1alpha1.Problem
	for _, o := range s.ordered() {
		gvk, known := unserved[o.id]
		unreverted := false
		switch {
		case o.desired != nil:
			gvk = o.desired.gvk
			_, unreverted = pending[o.desired.key]
		case !known && o.entry != nil:
			gvk = gvkOf(o.entry)
		}
		if o.problem != nil {
			all = append(all, problemOf(problemObject(gvk, o.id), o.problem.reason, o.problem.message, v1alpha1.ConditionReady))
		}
		if reason, message, ready := o.drifted(unreverted); reason != "" {
			drift := problemOf(problemObject(gvk, o.id), reason, message, v1alpha1.ConditionDrifted)
			if ready {
				drift.Conditions = append(drift.Conditions, v1alpha1.ConditionReady)
			}
			ends := ready && o.drift != nil && !o.drift.until.IsZero() || !ready && unreverted
			drift.Transient = ends && reason == v1alpha1.ReasonDriftDetected
			all = append(all, drift)
		}
	}
	return all
}

// drifted returns why the object is, or may be, not as the manifest has it, and whether Ready
// is False for it; no reason if it is as the manifest has it. pending reports that its drift
// is still to be reverted.
func (o *objectState) drifted(pending bool) (reason, message string, ready bool) {
	left := o.problem == nil && o.in(v1alpha1.ObjectDrifted)
	switch {
	case o.desired == nil:
		return "", "", false
	case o.contention.Contended() && !left:
		ready = o.problem == nil && o.in(v1alpha1.ObjectContended) && o.contention.Delays()
		return v1alpha1.ReasonDriftContended, o.contention.Text, ready
	case left && o.drift != nil && !o.drift.unobserved:
		return v1alpha1.ReasonDriftDetected, o.drift.text(), true
	case left:
		return v1alpha1.ReasonDriftDetected, "it was changed, and is not reverted", true
	case pending:
		return v1alpha1.ReasonDriftDetected, "changed and not reverted yet", false
	case o.additions != "":
		return v1alpha1.ReasonDriftDetected, o.additions, false
	}
	return "", "", false
}
