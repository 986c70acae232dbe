package status

import (
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/apply"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/progress"
)

// failureOf returns the failure of a task.
func failureOf(r apply.Result) object.Failure {
	why := object.Explain(r.Err, r.Task.Object.GVK, r.Task.Object.ID, r.Shown)
	if r.Task.Why == plan.WhyDrift && why.Reason == v1alpha1.ReasonManifestInvalid {
		// The same configuration was accepted before.
		if why.Reason = v1alpha1.ReasonApplyFailed; r.Task.Cause.Found == nil {
			return why // it was deleted, so that nothing is in the way
		}
		why.Message += ". It was accepted before: a field that another field manager added may be in the way"
	}
	return why
}

// ProblemOf returns the problem that the status has at the end of a reconcile because of a task that failed.
func ProblemOf(r apply.Result) v1alpha1.Problem {
	why := failureOf(r)
	return object.ProblemOf(object.ProblemObject(r.Task.Object.GVK, r.Task.Object.ID), why.Reason, why.Message, v1alpha1.ConditionReady)
}

// Count counts the outcome of a task in the progress of an apply. An object that is terminating is applied by another
// reconcile.
func Count(run *progress.Run, r apply.Result) {
	switch {
	case r.Err != nil && !errors.Is(r.Err, apply.ErrForeign):
		run.Failed(ProblemOf(r))
	case !r.Ending():
		run.Applied()
	}
}

// Failing returns the status during the apply of objects, if some have failed. The inventory stays as it is.
func Failing(before v1alpha1.VidraResourceStatus, failed []v1alpha1.Problem, now time.Time) v1alpha1.VidraResourceStatus {
	after := *before.DeepCopy()
	all := after.Problems
	for _, p := range failed {
		key := keyOfProblem(&p)
		i := slices.IndexFunc(all, func(was v1alpha1.Problem) bool { return keyOfProblem(&was) == key })
		if i < 0 {
			p.Since = metav1.NewTime(now.Truncate(time.Second))
			all = append(all, p)
			continue
		}
		p.Since = all[i].Since
		all[i] = p
	}
	sortBySeverity(all)
	var more int32
	after.Problems, more = bounded(all)
	after.UnlistedProblems += more
	reason, message := describe(inCondition(all, v1alpha1.ConditionReady), after.ManagedResources)
	setCondition(&after, v1alpha1.ConditionReconciling, metav1.ConditionTrue, reason, message)
	setCondition(&after, v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message)
	ready := *meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionReady)
	after.DeployState, after.LastError = v1alpha1.DeployRunning, lastError(ready, all, after.ManagedResources)
	noteFirstReady(&before, &after, now)
	return after
}
