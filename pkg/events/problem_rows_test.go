package events

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// problemRows tell that something is wrong.
func problemRows() map[string]transition {
	rows := map[string]transition{
		"ProblemComes": {
			reason: "A problem has the reason of the condition.", before: fine, after: broken,
			want: []string{"Warning ApplyFailed/Apply VidraResource web: Deployment shop/web: no"},
		},
		"ProblemChanges": {
			reason: "Another problem is news, and so is the end of the one before.", before: broken,
			after: failing(problem(v1alpha1.ReasonPruneFailed, "a", "cannot be removed: no")),
			want: []string{
				"Warning PruneFailed/Prune VidraResource web: ConfigMap shop/a: cannot be removed: no",
				"Normal Recovered/Apply VidraResource web: No longer the case: Deployment shop/web: no",
			},
		},
		"WaitingIsNoProblem": {
			reason: "A watch that starts is part of the normal course.", before: fine,
			after: ready(metav1.ConditionFalse, v1alpha1.ReasonStarting, "Starting to watch"),
		},
	}
	for reason, action := range problems {
		rows["Problem"+reason] = transition{
			reason: "A problem has the reason of the condition.", before: fine, after: failing(problem(reason, "a", "no")),
			want: []string{"Warning " + reason + "/" + action + " VidraResource web: ConfigMap shop/a: no"},
		}
	}
	return rows
}

// severalRows tell of several objects that have failed.
func severalRows() map[string]transition {
	a, b, c := problem(v1alpha1.ReasonApplyFailed, "a", "no"), problem(v1alpha1.ReasonApplyFailed, "b", "never"), problem(v1alpha1.ReasonManifestInvalid, "c", "bad")
	unpruned := problem(v1alpha1.ReasonPruneFailed, "b", "cannot be removed: no")
	deleting := problem(v1alpha1.ReasonProgressing, "b", "is being deleted")
	one, two := failing(a), failing(a, b)
	unconfirmed := b
	unconfirmed.Unconfirmed = true
	unlisted := func(n int32, problems ...v1alpha1.Problem) v1alpha1.VidraResourceStatus {
		status := failing(problems...)
		status.UnlistedProblems = n
		return status
	}
	return map[string]transition{
		"SeveralFail": {
			reason: "Each is named.", before: fine, after: two,
			want: []string{"Warning ApplyFailed/Apply VidraResource web: ConfigMap shop/a: no; ConfigMap shop/b: never"},
		},
		"AnotherFails": {
			reason: "The first one is no news.", before: one, after: two,
			want: []string{"Warning ApplyFailed/Apply VidraResource web: ConfigMap shop/b: never"},
		},
		"OneOfSeveralIsMended": {
			reason: "What is left is no news.", before: two, after: one,
			want: []string{"Normal Recovered/Apply VidraResource web: No longer the case: ConfigMap shop/b: never"},
		},
		"OneOfSeveralIsUnderWay": {
			reason: "What is merely on its way has not recovered.", before: two, after: failing(a, deleting, unconfirmed),
		},
		"OneOfSeveralFailsInAnotherWay": {
			reason: "It has not recovered.", before: two, after: failing(a, problem(v1alpha1.ReasonAdoptionRefused, "b", "another")),
			want: []string{"Warning AdoptionRefused/Apply VidraResource web: ConfigMap shop/b: another"},
		},
		"OneOfManyIsNotNamed": {
			reason: "It may be among the others.", before: two, after: unlisted(20, a),
		},
		"OneOfManyIsApplied": {
			reason: "The inventory shows that it is not among the others.", before: two, after: holding(unlisted(20, a), "b", v1alpha1.ObjectApplied),
			want: []string{"Normal Recovered/Apply VidraResource web: No longer the case: ConfigMap shop/b: never"},
		},
		"OneOfManyIsNotApplied": {
			reason: "Nor does the inventory show it.", before: two, after: holding(unlisted(20, a), "b", v1alpha1.ObjectFailed),
		},
		"NobodyLooks": {
			reason: "What cannot be read says nothing of the objects.", before: two, after: between(two, v1alpha1.ReasonSourceUnavailable, "ConfigMap shop/parts: no"),
			want: []string{"Warning SourceUnavailable/Apply VidraResource web: ConfigMap shop/parts: no"},
		},
		"AnotherIsUnderWay": {reason: "That is nothing that is wrong.", before: one, after: failing(a, deleting)},
		"AnotherWasUnderWay": {
			reason: "What was in progress is not reported to be over.", before: failing(a, deleting), after: fine,
			want: []string{"Normal Recovered/Apply VidraResource web: No longer the case: ConfigMap shop/a: no"},
		},
		"ManyFail": {reason: "How many are not listed is no news.", before: unlisted(1, a), after: unlisted(2, a)},
		"TheyFailForTwoReasons": {
			reason: "Each reason is an Event.", before: fine, after: failing(c, a, unpruned),
			want: []string{
				"Warning ManifestInvalid/Apply VidraResource web: ConfigMap shop/c: bad",
				"Warning ApplyFailed/Apply VidraResource web: ConfigMap shop/a: no",
				"Warning PruneFailed/Prune VidraResource web: ConfigMap shop/b: cannot be removed: no",
			},
		},
		"TheWorstIsMended": {
			reason: "The other one is reported already.", before: failing(c, a), after: one,
			want: []string{"Normal Recovered/Apply VidraResource web: No longer the case: ConfigMap shop/c: bad"},
		},
		"TheyEndTogether": {
			reason: "What had failed are two actions.", before: failing(a, unpruned), after: fine,
			want: []string{
				"Normal Recovered/Apply VidraResource web: No longer the case: ConfigMap shop/a: no",
				"Normal Recovered/Prune VidraResource web: No longer the case: ConfigMap shop/b: cannot be removed: no",
			},
		},
		"ItFailsAgain":   {reason: "It was reported, and its end was not.", before: between(one, v1alpha1.ReasonProgressing, "waits"), after: one},
		"AnotherVersion": {reason: "An object is the same in each version of its kind.", before: one, after: failing(inVersion(a, "v2"))},
		"HostileText": {
			reason: "What a message quotes is no problem.", before: failing(problem(v1alpha1.ReasonApplyFailed, "a", "no; ConfigMap shop/b: never")), after: two,
			want: []string{"Warning ApplyFailed/Apply VidraResource web: ConfigMap shop/a: no; ConfigMap shop/b: never"},
		},
	}
}

// holding is a status whose inventory has a ConfigMap.
func holding(status v1alpha1.VidraResourceStatus, name string, state v1alpha1.ObjectState) v1alpha1.VidraResourceStatus {
	status.ManagedResources = []v1alpha1.ManagedResourceStatus{{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: name, State: state}}
	return status
}

// inVersion is a problem of the same object in another version.
func inVersion(p v1alpha1.Problem, version string) v1alpha1.Problem {
	object := *p.Object
	object.APIVersion, p.Object = version, &object
	return p
}

// endRows tell that a problem is over.
func endRows() map[string]transition {
	unpruned := failing(problem(v1alpha1.ReasonPruneFailed, "a", "cannot be removed: no"))
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
		"OverWhileAWatchFails": {
			reason: "The objects are as they should be, whatever else is wrong.", before: broken, after: with(fine, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWatchFailed, "Cannot watch things"),
			want: []string{"Normal Recovered/Apply VidraResource web: No longer the case: Deployment shop/web: no"},
		},
		"OverWhileOneIsUnhealthy": {
			reason: "What is unhealthy is applied.", before: broken, after: with(fine, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonUnhealthy, "Deployment shop/web: Failed: no"),
			want: []string{"Normal Recovered/Apply VidraResource web: No longer the case: Deployment shop/web: no"},
		},
		"DriftGoes": {
			reason: "Whoever had changed an object changed it back.", before: adrift, after: fine,
			want: []string{"Normal Recovered/Detect VidraResource web: No longer the case: Deployment shop/web: spec.replicas is 5 and should be 2"},
		},
		"DriftIsPutBack": {
			reason: "That is what DriftCorrected tells.", before: adrift, after: fine,
			changes: []Change{{Action: Recreated, Object: deployment, Cluster: "https://far:6443"}},
			want:    []string{"Normal DriftCorrected/Restore VidraResource web: Deployment shop/web: created it again after it had been deleted"},
		},
		"DriftBehindAnother": {
			reason: "It is still there, though another object is worse.", before: adrift,
			after: failing(problem(v1alpha1.ReasonDriftContended, "a", "contended", v1alpha1.ConditionDrifted), drift),
		},
		"SuspensionEnds": {
			reason: "Resumed tells it.", after: fine,
			before: with(failing(problem(v1alpha1.ReasonSuspended, "a", "is not applied while spec.suspend is true")), v1alpha1.ConditionSuspended, metav1.ConditionTrue, v1alpha1.ReasonSuspended, "spec.suspend is true"),
			want:   []string{"Normal Resumed/Suspend VidraResource web: spec.suspend of VidraResource web is false again: changes made meanwhile are handled as spec.drift specifies"},
		},
		"HealthIsAwaited": {
			reason: "Healthy tells it.", before: with(failing(sick), v1alpha1.ConditionHealthy, metav1.ConditionFalse, sick.Reason, sick.Message),
			after: with(fine, v1alpha1.ConditionHealthy, metav1.ConditionTrue, v1alpha1.ReasonHealthy, "All objects are healthy"),
			want: []string{
				"Normal Recovered/Check VidraResource web: No longer the case: Deployment shop/web: Failed: crashes",
				"Normal Healthy/Check VidraResource web: All objects of VidraResource web are healthy",
			},
		},
		"SeenAfterTheWatchIsBack": {
			reason: "WatchRestored told it.", after: fine,
			before: between(failed(v1alpha1.ReasonWatchFailed, "Cannot watch v1/secrets: Forbidden: no"), v1alpha1.ReasonProgressing, "Secret shop/a is not seen yet"),
		},
	}
}

// destinationRows tell of a destination that is away, and of what is wrong besides.
func destinationRows() map[string]transition {
	const far = "the API server https://far:6443 cannot be reached: connection refused"
	away := failed(v1alpha1.ReasonDestinationUnreachable, far)
	back := "Normal DestinationRestored/Connect VidraResource web: The destination of VidraResource web answers again. No longer the case: " + far
	blocked := between(broken, v1alpha1.ReasonDestinationUnreachable, far)
	return map[string]transition{
		"DestinationComesBack": {
			reason: "The destination is told to be back, and nothing else.", before: away, after: fine, want: []string{back},
		},
		"DestinationComesBackToAProblem": {
			reason: "It answers, if only with a refusal.", before: away, after: broken,
			want: []string{back, "Warning ApplyFailed/Apply VidraResource web: Deployment shop/web: no"},
		},
		"DestinationComesBackToABadManifest": {
			reason: "The destination is asked before the manifest is read.", before: away, after: failed(v1alpha1.ReasonManifestEmpty, "no object"),
			want: []string{back, "Warning ManifestEmpty/Apply VidraResource web: no object"},
		},
		"DestinationGoesDuringAProblem": {
			reason: "That says nothing of the objects.", before: broken, after: blocked,
			want: []string{"Warning DestinationUnreachable/Connect VidraResource web: " + far},
		},
		"ProblemOutlastsTheDestination": {
			reason: "It was told before.", before: blocked, after: broken, want: []string{back},
		},
		"ProblemEndsMeanwhile": {
			reason: "Both ends are told.", before: blocked, after: fine,
			want: []string{back, "Normal Recovered/Apply VidraResource web: No longer the case: Deployment shop/web: no"},
		},
	}
}
