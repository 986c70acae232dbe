package events

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// with is a status with one more condition.
func with(status v1alpha1.VidraResourceStatus, kind string, value metav1.ConditionStatus, reason, message string) v1alpha1.VidraResourceStatus {
	status = *status.DeepCopy()
	status.Conditions = append(status.Conditions, metav1.Condition{Type: kind, Status: value, Reason: reason, Message: message})
	return status
}

// failed is a status whose last error is its Ready condition's.
func failed(reason, message string) v1alpha1.VidraResourceStatus {
	status := ready(metav1.ConditionFalse, reason, message)
	status.LastError = message
	return status
}

var (
	fine   = ready(metav1.ConditionTrue, v1alpha1.ReasonApplied, "All objects are applied (2)")
	broken = failed(v1alpha1.ReasonApplyFailed, "Deployment shop/web: no")
	// starting is what broken becomes before it is fine.
	starting = between(broken, v1alpha1.ReasonStarting, "Starting to watch")
)

// between is a status that is not ready yet, some time after another one.
func between(before v1alpha1.VidraResourceStatus, reason, message string) v1alpha1.VidraResourceStatus {
	status := ready(metav1.ConditionFalse, reason, message)
	status.LastError = before.LastError
	return status
}

// transitions are the rows of TestTransitions.
func transitions() map[string]transition {
	rows := map[string]transition{}
	for _, some := range []map[string]transition{changeRows(), problemRows(), endRows(), watchRows(), healthRows(), suspendRows()} {
		maps.Copy(rows, some)
	}
	return rows
}

func changeRows() map[string]transition {
	return map[string]transition{
		"SteadyPass":    {reason: "Nothing happened, so nothing is said.", before: fine, after: fine},
		"SteadyProblem": {reason: "A problem that stays is said once.", before: broken, after: broken},
		"Applied": {
			reason: "A pass that wrote objects says how many.", after: fine,
			changes: []Change{{Action: Created, Object: deployment}, {Action: Configured, Object: deployment}, {Action: Created, Object: deployment}},
			want:    []string{"Normal Applied/Apply VidraResource web: Applied the manifest: 2 created, 1 changed"},
		},
		"Restored": {
			reason: "A heal is said to the owner and at the object.", before: fine, after: fine,
			changes: []Change{{Action: Restored, Object: deployment, Fields: []ownership.Change{replicas}}},
			want: []string{
				`Normal DriftCorrected/Restore VidraResource web: Deployment shop/web: put back spec.replicas 5 -> 2, set by "kubectl-edit"`,
				`Normal ChangeReverted/Restore Deployment shop/web: VidraResource web manages this object and put back spec.replicas 5 -> 2, set by "kubectl-edit". To keep a change, make it in spec.manifest of the VidraResource`,
			},
		},
		"Elsewhere": {
			reason: "An object of another cluster has no Events here.", before: fine, after: fine,
			changes: []Change{{Action: Restored, Object: deployment, Fields: []ownership.Change{replicas}, Cluster: "https://far:6443"}},
			want:    []string{`Normal DriftCorrected/Restore VidraResource web: Deployment shop/web: put back spec.replicas 5 -> 2, set by "kubectl-edit"`},
		},
		"Recreated": {
			reason: "A deletion has no fields.", before: fine, after: fine,
			changes: []Change{{Action: Recreated, Object: deployment}},
			want: []string{
				"Normal DriftCorrected/Restore VidraResource web: Deployment shop/web: created it again after it had been deleted",
				"Normal ChangeReverted/Restore Deployment shop/web: VidraResource web manages this object and created it again after it had been deleted. To keep a change, make it in spec.manifest of the VidraResource",
			},
		},
		"Pruned": {
			reason: "What was removed and what was left to others is told apart.", before: fine, after: fine,
			changes: []Change{{Action: Pruned, Object: deployment}, {Action: Released, Object: corev1.ObjectReference{Kind: "Namespace", Name: "shop"}}},
			want:    []string{"Normal Pruned/Prune VidraResource web: Removed Deployment shop/web. Left to their other owners: Namespace shop"},
		},
		"Relabelled": {
			reason: "A label is no field of the manifest.", before: fine, after: fine,
			changes: []Change{{Action: Relabelled, Object: deployment, Note: "its annotation does not count"}},
			want: []string{
				"Normal DriftCorrected/Restore VidraResource web: Deployment shop/web: put back the label managed-by=vidra. But its annotation does not count",
				"Normal ChangeReverted/Restore Deployment shop/web: VidraResource web manages this object and put back the label managed-by=vidra. But its annotation does not count. To keep a change, make it in spec.manifest of the VidraResource",
			},
		},
		"Detected": {
			reason: "What is left is said, with why.", before: fine, after: fine,
			changes: []Change{{Action: Detected, Object: deployment, Fields: []ownership.Change{replicas}, Note: "spec.replicas is 5 and should be 2. It is left so: spec.suspend is true"}},
			want:    []string{"Warning DriftDetected/Detect VidraResource web: Deployment shop/web: spec.replicas is 5 and should be 2. It is left so: spec.suspend is true"},
		},
		"Contended": {
			reason: "Who fights is told how to end it.", before: fine, after: fine,
			changes: []Change{{Action: Contended, Object: deployment, Fields: []ownership.Change{replicas}, Note: "somebody changes spec.replicas back again and again"}},
			want:    []string{"Warning DriftContended/Restore VidraResource web: Deployment shop/web: somebody changes spec.replicas back again and again"},
		},
		"Settled": {
			reason: "The end of a fight is said, too.", before: fine, after: fine,
			changes: []Change{{Action: Settled, Object: deployment}},
			want:    []string{"Normal DriftSettled/Restore VidraResource web: Deployment shop/web: nobody changes it back any more"},
		},
		"Replaced": {
			reason: "What is created again is not pruned.", before: fine, after: fine,
			changes: []Change{{Action: Replaced, Object: deployment, Note: "deleted, to be created again: spec.selector"}},
			want:    []string{"Normal Replaced/Apply VidraResource web: Deployment shop/web: deleted, to be created again: spec.selector"},
		},
		"Orphaned": {
			reason: "What is let go is not removed.", before: fine, after: fine,
			changes: []Change{{Action: Orphaned, Object: deployment}},
			want:    []string{"Normal Pruned/Prune VidraResource web: Left in place, as nobody's: Deployment shop/web"},
		},
	}
}

func problemRows() map[string]transition {
	rows := map[string]transition{
		"ProblemComes": {
			reason: "A problem has the reason of the condition.", before: fine, after: broken,
			want: []string{"Warning ApplyFailed/Apply VidraResource web: Deployment shop/web: no"},
		},
		"ProblemChanges": {
			reason: "Another problem is news.", before: broken,
			after: ready(metav1.ConditionFalse, v1alpha1.ReasonPruneFailed, "ConfigMap shop/a: cannot be removed: no"),
			want:  []string{"Warning PruneFailed/Prune VidraResource web: ConfigMap shop/a: cannot be removed: no"},
		},
		"WaitingIsNoProblem": {
			reason: "A watch that starts is part of the normal course.", before: fine,
			after: ready(metav1.ConditionFalse, v1alpha1.ReasonStarting, "Starting to watch"),
		},
	}
	for reason, action := range problems {
		rows["Problem"+reason] = transition{
			reason: "A problem has the reason of the condition.", before: fine, after: failed(reason, "ConfigMap shop/a: no"),
			want: []string{"Warning " + reason + "/" + action + " VidraResource web: ConfigMap shop/a: no"},
		}
	}
	return rows
}

// endRows tell that a problem is over.
func endRows() map[string]transition {
	unpruned := failed(ReasonPruneFailed, "ConfigMap shop/a: cannot be removed: no")
	return map[string]transition{
		"ProblemGoes": {
			reason: "An end of a problem is said with what it was.", before: broken, after: fine,
			want: []string{"Normal Recovered/Apply VidraResource web: No longer the case: Deployment shop/web: no"},
		},
		"NotReadyYet": {reason: "What is not ready has not recovered.", before: broken, after: starting},
		"ReadyAtLast": {
			reason: "A problem is over when all is ready, however long that takes.", before: starting, after: fine,
			want: []string{"Normal Recovered/Apply VidraResource web: No longer the case: Deployment shop/web: no"},
		},
		"PruneGoes": {
			reason: "The action is the one that had failed.", before: unpruned, after: fine,
			want: []string{"Normal Recovered/Prune VidraResource web: No longer the case: ConfigMap shop/a: cannot be removed: no"},
		},
		"PrunedAtLast": {
			reason: "Also when the object takes its time to go.", after: fine,
			before: between(unpruned, v1alpha1.ReasonProgressing, "ConfigMap shop/a: is being deleted"),
			want:   []string{"Normal Recovered/Prune VidraResource web: No longer the case: ConfigMap shop/a: cannot be removed: no"},
		},
		"DestinationComesBack": {
			reason: "The destination is told to be back, and nothing else.", before: failed(ReasonDestinationUnreachable, "no answer"), after: fine,
			want: []string{"Normal DestinationRestored/Connect VidraResource web: The destination answers again"},
		},
		"DestinationComesBackToAProblem": {
			reason: "It answers, if only with a refusal.", before: failed(ReasonDestinationUnreachable, "no answer"), after: broken,
			want: []string{
				"Normal DestinationRestored/Connect VidraResource web: The destination answers again",
				"Warning ApplyFailed/Apply VidraResource web: Deployment shop/web: no",
			},
		},
		"DestinationIsNotAsked": {
			reason: "A manifest that cannot be read says nothing about the destination.",
			before: failed(ReasonDestinationUnreachable, "no answer"), after: failed(ReasonManifestEmpty, "no object"),
			want: []string{"Warning ManifestEmpty/Apply VidraResource web: no object"},
		},
	}
}

func watchRows() map[string]transition {
	const kind, no = v1alpha1.ConditionWatching, metav1.ConditionFalse
	watched := with(fine, kind, metav1.ConditionTrue, v1alpha1.ReasonSynced, "All kinds are watched (1)")
	blind := with(failed(ReasonWatchFailed, "Cannot watch things"), kind, no, ReasonWatchFailed, "Cannot watch things")
	fails := []string{"Warning WatchFailed/Watch VidraResource web: Cannot watch things"}
	again := "Normal WatchRestored/Watch VidraResource web: Every kind in the manifest can be watched again"
	return map[string]transition{
		"WatchFails":        {reason: "A condition that became false is told.", before: watched, after: blind, want: fails},
		"WatchFailsAtFirst": {reason: "Also if it was never true.", after: blind, want: fails},
		"WatchFailsOtherwise": {
			reason: "How exactly changes from moment to moment.", before: blind,
			after: with(failed(ReasonWatchFailed, "Cannot watch things: EOF"), kind, no, ReasonWatchFailed, "Cannot watch things: EOF"),
		},
		"WatchIsBack": {reason: "It is told once, not as a recovery, too.", before: blind, after: watched, want: []string{again}},
		"WatchIsStarting": {
			reason: "The API server answers again.", before: blind,
			after: with(starting, kind, no, v1alpha1.ReasonStarting, "Starting to watch"), want: []string{again},
		},
		"WatchStarts": {
			reason: "What never failed is not restored.", after: watched,
			before: with(ready(no, v1alpha1.ReasonStarting, "Starting to watch"), kind, no, v1alpha1.ReasonStarting, "Starting to watch"),
		},
		"WatchIsNotWanted": {
			reason: "Who turns events off knows that nothing is watched.", before: with(fine, kind, no, ReasonWatchFailed, "Cannot watch things"),
			after: with(fine, kind, no, v1alpha1.ReasonEventsOff, "spec.destination.reconcileOnEvents is false"),
		},
	}
}

func healthRows() map[string]transition {
	healthy := with(fine, v1alpha1.ConditionHealthy, metav1.ConditionTrue, "Healthy", "All objects are healthy")
	sick := with(fine, v1alpha1.ConditionHealthy, metav1.ConditionFalse, "Failed", "Deployment shop/web: crashes")
	rolling := with(fine, v1alpha1.ConditionHealthy, metav1.ConditionFalse, v1alpha1.ReasonProgressing, "Deployment shop/web: 1 of 2 is ready")
	worse := with(fine, v1alpha1.ConditionHealthy, metav1.ConditionFalse, "Stuck", "Deployment shop/web: makes no progress")
	falls := []string{"Warning Unhealthy/Check VidraResource web: Deployment shop/web: crashes"}
	rises := []string{"Normal Healthy/Check VidraResource web: All objects are healthy"}
	return map[string]transition{
		"FallsIll":      {reason: "An object stopped working.", before: healthy, after: sick, want: falls},
		"BornIll":       {reason: "An object never worked.", before: fine, after: sick, want: falls},
		"GetsWorse":     {reason: "Another reason is news.", before: sick, after: worse, want: []string{"Warning Unhealthy/Check VidraResource web: Deployment shop/web: makes no progress"}},
		"RollsOut":      {reason: "What starts is not ill.", before: healthy, after: rolling},
		"RolledOut":     {reason: "What started works.", before: rolling, after: healthy, want: rises},
		"GetsWell":      {reason: "All objects work again.", before: sick, after: healthy, want: rises},
		"IsHealthy":     {reason: "That it is so from the start is no news.", before: fine, after: healthy},
		"NoLongerAsked": {reason: "No condition says nothing.", before: sick, after: fine},
	}
}

func suspendRows() map[string]transition {
	paused := with(fine, v1alpha1.ConditionSuspended, metav1.ConditionTrue, v1alpha1.ReasonSuspended, "spec.suspend is true")
	altered := with(fine, v1alpha1.ConditionWarnings, metav1.ConditionTrue, v1alpha1.ReasonWarned, "ConfigMap shop/a: data.x is 1")
	return map[string]transition{
		"Warned": {
			reason: "What the API server does with an object besides is told once.", before: fine, after: altered,
			want: []string{"Warning Warned/Apply VidraResource web: ConfigMap shop/a: data.x is 1"},
		},
		"StillWarned": {reason: "The same is no news.", before: altered, after: altered},
		"Paused": {
			reason: "The user paused.", before: fine, after: paused,
			want: []string{"Normal Suspended/Suspend VidraResource web: spec.suspend is true: no object is written, what changes is reported"},
		},
		"Unpaused": {
			reason: "The user unpaused.", before: paused, after: fine,
			want: []string{"Normal Resumed/Suspend VidraResource web: spec.suspend is false again: what changed meanwhile is treated as spec.drift says"},
		},
	}
}
