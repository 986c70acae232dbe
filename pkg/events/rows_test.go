package events

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// with is a status with one more condition.
func with(status v1alpha1.VidraResourceStatus, kind string, value metav1.ConditionStatus, reason, message string) v1alpha1.VidraResourceStatus {
	status = *status.DeepCopy()
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{Type: kind, Status: value, Reason: reason, Message: message})
	return status
}

// listing is a status with further problems.
func listing(status v1alpha1.VidraResourceStatus, problems ...v1alpha1.Problem) v1alpha1.VidraResourceStatus {
	status = *status.DeepCopy()
	status.Problems = append(status.Problems, problems...)
	return status
}

// unmatched is a problem of an ignore rule that matches nothing.
func unmatched(rule string) v1alpha1.Problem {
	return v1alpha1.Problem{
		Reason: v1alpha1.ReasonNothingMatches, Message: "Nothing in the manifest is matched by " + rule,
		Conditions: []string{v1alpha1.ConditionUnmatchedIgnoreRules},
	}
}

// nearLimit is a problem of a VidraResource that is nearly too large.
var nearLimit = v1alpha1.Problem{Reason: v1alpha1.ReasonNearSizeLimit, Message: "it takes most", Conditions: []string{v1alpha1.ConditionWarnings}}

// readySince is a status that notes when Ready became True for the first time.
func readySince(status v1alpha1.VidraResourceStatus) v1alpha1.VidraResourceStatus {
	status.FirstReadyTime = &metav1.Time{Time: time.Date(2026, 1, 31, 11, 0, 0, 0, time.UTC)}
	return status
}

// problem is a problem of a ConfigMap in the namespace shop, or of the VidraResource if name
// is empty.
func problem(reason, name, message string, conditions ...string) v1alpha1.Problem {
	p := v1alpha1.Problem{Reason: reason, Message: message, Conditions: append(conditions, v1alpha1.ConditionReady)}
	if name != "" {
		p.Object = &v1alpha1.ProblemObject{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: name}
	}
	return p
}

// of makes a problem one of another object.
func of(ref corev1.ObjectReference, p v1alpha1.Problem) v1alpha1.Problem {
	p.Object = &v1alpha1.ProblemObject{APIVersion: ref.APIVersion, Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name}
	return p
}

// failing is a status with problems, the worst first.
func failing(problems ...v1alpha1.Problem) v1alpha1.VidraResourceStatus {
	status := listing(ready(metav1.ConditionFalse, problems[0].Reason, problems[0].Message), problems...)
	status.LastError = problems[0].Message
	return status
}

// failed is a status with one problem of the VidraResource.
func failed(reason, message string) v1alpha1.VidraResourceStatus {
	return failing(problem(reason, "", message))
}

// completed is a status with a Job that has ended.
func completed(status v1alpha1.VidraResourceStatus) v1alpha1.VidraResourceStatus {
	status = *status.DeepCopy()
	status.ManagedResources = append(status.ManagedResources, v1alpha1.ManagedResourceStatus{
		APIVersion: "batch/v1", Kind: "Job", Namespace: "shop", Name: "migrate", UID: "7", State: v1alpha1.ObjectCompleted,
	})
	return status
}

// earlier is a status as an earlier version wrote it.
func earlier(status v1alpha1.VidraResourceStatus) v1alpha1.VidraResourceStatus {
	status = *status.DeepCopy()
	status.Problems = nil
	return status
}

var (
	fine   = ready(metav1.ConditionTrue, v1alpha1.ReasonApplied, "All objects are applied (2)")
	broken = failing(of(deployment, problem(v1alpha1.ReasonApplyFailed, "", "no")))
	sick   = of(deployment, v1alpha1.Problem{Reason: v1alpha1.ReasonUnhealthy, Message: "Failed: crashes", Conditions: []string{v1alpha1.ConditionHealthy}})
	// adrift is a status with an object whose change is not reverted.
	adrift = with(failing(drift), v1alpha1.ConditionDrifted, metav1.ConditionTrue, v1alpha1.ReasonDriftDetected, drift.Message)
	drift  = of(deployment, problem(v1alpha1.ReasonDriftDetected, "", "spec.replicas is 5 and should be 2", v1alpha1.ConditionDrifted))
	// starting is what broken becomes before it is fine.
	starting = between(broken, v1alpha1.ReasonStarting, "Starting to watch")
)

// between is a status that is not ready yet, some time after another one: whether its
// problems are over is not known.
func between(before v1alpha1.VidraResourceStatus, reason, message string) v1alpha1.VidraResourceStatus {
	status := listing(ready(metav1.ConditionFalse, reason, message), problem(reason, "", message))
	for _, p := range before.Problems {
		p.Unconfirmed = true
		status.Problems = append(status.Problems, p)
	}
	status.LastError = before.LastError
	return status
}

// transitions are the rows of TestTransitions.
func transitions() map[string]transition {
	rows := map[string]transition{}
	for _, some := range []map[string]transition{changeRows(), problemRows(), endRows(), severalRows(), destinationRows(), watchRows(), upgradeRows(), healthRows(), suspendRows(), breakGlassRows()} {
		maps.Copy(rows, some)
	}
	return rows
}

// place is where a manifest has an object.
const place = "ConfigMap shop/manifests, key app.yaml (spec.manifestFrom[0]), document 2, line 14"

func changeRows() map[string]transition {
	return map[string]transition{
		"SteadyPass":    {reason: "Nothing happened, so nothing is said.", before: fine, after: fine},
		"SteadyProblem": {reason: "A problem that stays is said once.", before: broken, after: broken},
		"Applied": {
			reason: "A reconcile that wrote objects says how many, and which.", after: fine,
			changes: []Change{{Action: Created, Object: deployment}, {Action: Configured, Object: named("Service", 1)}, {Action: Created, Object: named("ConfigMap", 2)}},
			want:    []string{"Normal Applied/Apply VidraResource web: Applied the manifest: 2 created, 1 changed. Created Deployment shop/web, ConfigMap shop/page-0002. Changed Service shop/page-0001"},
		},
		"AppliedOne": {
			reason: "Nothing else was changed.", after: fine, changes: []Change{{Action: Configured, Object: deployment}},
			want: []string{"Normal Applied/Apply VidraResource web: Applied the manifest: 0 created, 1 changed. Changed Deployment shop/web"},
		},
		"FirstReady": {
			reason: "That all is in order at last is told once.", before: broken, after: readySince(fine),
			want: []string{
				"Normal Recovered/Apply VidraResource web: No longer the case: Deployment shop/web: no",
				"Normal Ready/Check VidraResource web: VidraResource web is Ready for the first time: All objects are applied (2)",
			},
		},
		"ReadyAgain": {
			reason: "Ready was True before.", before: readySince(broken), after: readySince(fine),
			want: []string{"Normal Recovered/Apply VidraResource web: No longer the case: Deployment shop/web: no"},
		},
		"NoLongerReady": {
			reason: "An earlier version did not note since when.", before: fine, after: readySince(broken),
			want: []string{"Warning ApplyFailed/Apply VidraResource web: Deployment shop/web: no"},
		},
		"Restored": {
			reason: "A heal is said to the owner and at the object.", before: fine, after: fine,
			changes: []Change{{Action: Restored, Object: deployment, Fields: []ownership.Change{replicas}}},
			want: []string{
				`Normal DriftCorrected/Restore VidraResource web: Deployment shop/web: reverted spec.replicas to 2; "kubectl-edit" had set it to 5`,
				`Normal ChangeReverted/Restore Deployment shop/web: VidraResource web manages this object and reverted spec.replicas to 2; "kubectl-edit" had set it to 5. To keep a change, make it in the manifest of VidraResource web`,
			},
		},
		"RestoredInItsPlace": {
			reason: "Both Events end with where to change the object, if that is known.", before: fine, after: fine,
			changes: []Change{{Action: Restored, Object: deployment, Fields: []ownership.Change{replicas}, Place: place}},
			want: []string{
				`Normal DriftCorrected/Restore VidraResource web: Deployment shop/web: reverted spec.replicas to 2; "kubectl-edit" had set it to 5. To keep a change, make it in ` + place,
				`Normal ChangeReverted/Restore Deployment shop/web: VidraResource web manages this object and reverted spec.replicas to 2; "kubectl-edit" had set it to 5. To keep a change, make it in ` + place,
			},
		},
		"RecreatedElsewhere": {
			reason: "An object of another cluster has only the Event at the VidraResource.", before: fine, after: fine,
			changes: []Change{{Action: Recreated, Object: deployment, Cluster: "https://far:6443", Place: place}},
			want:    []string{"Normal DriftCorrected/Restore VidraResource web: Deployment shop/web: created it again after it had been deleted. To keep a change, make it in " + place},
		},
		"Elsewhere": {
			reason: "An object of another cluster has no Events here.", before: fine, after: fine,
			changes: []Change{{Action: Restored, Object: deployment, Fields: []ownership.Change{replicas}, Cluster: "https://far:6443"}},
			want:    []string{`Normal DriftCorrected/Restore VidraResource web: Deployment shop/web: reverted spec.replicas to 2; "kubectl-edit" had set it to 5`},
		},
		"Recreated": {
			reason: "A deletion has no fields.", before: fine, after: fine,
			changes: []Change{{Action: Recreated, Object: deployment}},
			want: []string{
				"Normal DriftCorrected/Restore VidraResource web: Deployment shop/web: created it again after it had been deleted",
				"Normal ChangeReverted/Restore Deployment shop/web: VidraResource web manages this object and created it again after it had been deleted. To keep a change, make it in the manifest of VidraResource web",
			},
		},
		"Pruned": {
			reason: "What was removed and what was left to others is told apart.", before: fine, after: fine,
			changes: []Change{{Action: Pruned, Object: deployment}, {Action: Released, Object: corev1.ObjectReference{Kind: "Namespace", Name: "shop"}}},
			want:    []string{"Normal Pruned/Prune VidraResource web: Removed Deployment shop/web. Released to their other owners: Namespace shop"},
		},
		"Completed": {
			reason: "An object that has ended is said once.", before: fine, after: completed(fine),
			want: []string{"Normal Completed/Detect VidraResource web: Completed or deleted, and not created again: Job shop/migrate. To have it created again, change it in the manifest"},
		},
		"StaysCompleted": {reason: "An object that has ended is said once.", before: completed(fine), after: completed(fine)},
		"Retyped": {
			reason: "Another version is said with the one before.", before: fine, after: fine,
			changes: []Change{{Action: Retyped, Object: deployment, Note: "is in the manifest as apps/v1 now, and was apps/v1beta1 before"}},
			want:    []string{"Normal KindChanged/Apply VidraResource web: Deployment shop/web is in the manifest as apps/v1 now, and was apps/v1beta1 before"},
		},
		"Deleted": {
			reason: "The start of a deletion is about the VidraResource.", before: fine, after: fine,
			changes: []Change{{Action: Deleted, Object: owner, Note: "is being deleted: its objects (2) are removed"}},
			want:    []string{"Normal DeletionStarted/Prune VidraResource web: VidraResource web is being deleted: its objects (2) are removed"},
		},
		"Rotated": {
			reason: "Another kubeconfig is about the VidraResource.", before: fine, after: fine,
			changes: []Change{{Action: Rotated, Object: owner, Note: "uses the changed kubeconfig in Secret vidra-system/far for its destination https://far:6443"}},
			want:    []string{"Normal KubeconfigChanged/Connect VidraResource web: VidraResource web uses the changed kubeconfig in Secret vidra-system/far for its destination https://far:6443"},
		},
		"Progressed": {
			reason: "How far an apply has come is about the VidraResource.", before: fine, after: fine,
			changes: []Change{{Action: Progressed, Object: owner, Note: "is being applied: 3 of 9 objects are applied, 0 failed"}},
			want:    []string{"Normal Progressing/Apply VidraResource web: VidraResource web is being applied: 3 of 9 objects are applied, 0 failed"},
		},
		"NearLimit": {
			reason: "Before it is too late.", before: fine, after: listing(fine, nearLimit),
			want: []string{"Warning NearSizeLimit/Apply VidraResource web: it takes most"},
		},
		"SmallAgain": {
			reason: "So is the end.", before: listing(fine, nearLimit), after: fine,
			want: []string{"Normal Recovered/Apply VidraResource web: No longer the case: it takes most"},
		},
		"Unmatched": {
			reason: "A rule without an effect is no problem of an object.", before: fine, after: listing(fine, unmatched("rule 0 (kind Pod)")),
			want: []string{"Warning UnmatchedIgnoreRules/Apply VidraResource web: Nothing in the manifest is matched by rule 0 (kind Pod)"},
		},
		"AnotherUnmatched": {
			reason: "Each rule is said once.", before: listing(fine, unmatched("rule 0")), after: listing(fine, unmatched("rule 0"), unmatched("rule 1")),
			want: []string{"Warning UnmatchedIgnoreRules/Apply VidraResource web: Nothing in the manifest is matched by rule 1"},
		},
		"MatchedAgain": {
			reason: "The end of each is said.", before: listing(fine, unmatched("rule 0"), unmatched("rule 1")), after: listing(fine, unmatched("rule 1")),
			want: []string{"Normal Recovered/Apply VidraResource web: No longer the case: Nothing in the manifest is matched by rule 0"},
		},
		"WarnedNoMore": {
			reason: "A warning ends.", before: listing(fine, warned("a", "old"), warned("b", "old")), after: listing(fine, warned("b", "old")),
			want: []string{"Normal Recovered/Apply VidraResource web: No longer the case: ConfigMap shop/a: old"},
		},
		"WarnedOtherwise": {
			reason: "Each warning has a beginning and an end.", before: listing(fine, warned("a", "old")), after: listing(fine, warned("a", "older")),
			want: []string{
				"Warning Warned/Apply VidraResource web: ConfigMap shop/a: older",
				"Normal Recovered/Apply VidraResource web: No longer the case: ConfigMap shop/a: old",
			},
		},
		"FollowedByWaiting": {
			reason: "An object that waits for the deletion of its kind has not recovered.", before: failing(problem(v1alpha1.ReasonApplyFailed, "a", "refused")),
			after: failing(problem(v1alpha1.ReasonProgressing, "a", "is being deleted")),
			want:  []string{"Normal Recovered/Apply VidraResource web: No longer the case: ConfigMap shop/a: refused. It is not ready: is being deleted"},
		},
		"BlockedOtherwise": {
			reason: "A terminating Namespace counts what it still holds.", before: failing(problem(v1alpha1.ReasonDeletionBlocked, "a", "3 remain")),
			after: failing(problem(v1alpha1.ReasonDeletionBlocked, "a", "2 remain")),
		},
		"Relabelled": {
			reason: "A label is no field of the manifest.", before: fine, after: fine,
			changes: []Change{{Action: Relabelled, Object: deployment, Note: "its annotation does not count"}},
			want: []string{
				"Normal DriftCorrected/Restore VidraResource web: Deployment shop/web: restored the label managed-by=vidra. But its annotation does not count",
				"Normal ChangeReverted/Restore Deployment shop/web: VidraResource web manages this object and restored the label managed-by=vidra. But its annotation does not count. To keep a change, make it in the manifest of VidraResource web",
			},
		},
		"RelabelledAndChanged": {
			reason: "What was changed besides the label is said like any change.", before: fine, after: fine,
			changes: []Change{{Action: Relabelled, Object: deployment, Fields: []ownership.Change{replicas}}},
			want: []string{
				`Normal DriftCorrected/Restore VidraResource web: Deployment shop/web: restored the label managed-by=vidra. Reverted spec.replicas to 2; "kubectl-edit" had set it to 5`,
				`Normal ChangeReverted/Restore Deployment shop/web: VidraResource web manages this object and restored the label managed-by=vidra. Reverted spec.replicas to 2; "kubectl-edit" had set it to 5. To keep a change, make it in the manifest of VidraResource web`,
			},
		},
		"Detected": {
			reason: "What is left is said, with why.", before: fine, after: fine,
			changes: []Change{{Action: Detected, Object: deployment, Fields: []ownership.Change{replicas}, Note: "spec.replicas is 5 and should be 2. It is not reverted: spec.suspend is true"}},
			want: []string{
				"Warning DriftDetected/Detect VidraResource web: Deployment shop/web: spec.replicas is 5 and should be 2. It is not reverted: spec.suspend is true",
				"Warning DriftDetected/Detect Deployment shop/web: VidraResource web manages this object: spec.replicas is 5 and should be 2. It is not reverted: spec.suspend is true",
			},
		},
		"DetectedElsewhere": {
			reason: "An object of another cluster has only the Event at the VidraResource.", before: fine, after: fine,
			changes: []Change{{Action: Detected, Object: deployment, Cluster: "https://far:6443", Note: "it was deleted"}},
			want:    []string{"Warning DriftDetected/Detect VidraResource web: Deployment shop/web: it was deleted"},
		},
		"Contended": {
			reason: "Who fights is told how to end it.", before: fine, after: fine,
			changes: []Change{{Action: Contended, Object: deployment, Fields: []ownership.Change{replicas}, Note: "another writer keeps changing spec.replicas"}},
			want:    []string{"Warning DriftContended/Restore VidraResource web: Deployment shop/web: another writer keeps changing spec.replicas"},
		},
		"Settled": {
			reason: "The end of a fight is said, too.", before: fine, after: fine,
			changes: []Change{{Action: Settled, Object: deployment}},
			want:    []string{"Normal DriftSettled/Restore VidraResource web: Deployment shop/web: no longer contended: no other writer has changed it for a minute"},
		},
		"Replaced": {
			reason: "What is created again is not pruned.", before: fine, after: fine,
			changes: []Change{{Action: Replaced, Object: deployment, Note: "deleted, to be created again: spec.selector"}},
			want:    []string{"Normal Replaced/Apply VidraResource web: Deployment shop/web: deleted, to be created again: spec.selector"},
		},
		"Orphaned": {
			reason: "What is let go is not removed.", before: fine, after: fine,
			changes: []Change{{Action: Orphaned, Object: deployment}},
			want:    []string{"Normal Pruned/Prune VidraResource web: Left in place, unmanaged: Deployment shop/web"},
		},
	}
}

func watchRows() map[string]transition {
	const kind, no = v1alpha1.ConditionWatching, metav1.ConditionFalse
	fails := func(problems ...v1alpha1.Problem) v1alpha1.VidraResourceStatus {
		return with(failing(problems...), kind, no, v1alpha1.ReasonWatchFailed, problems[0].Message)
	}
	of := func(resource, why string) v1alpha1.Problem {
		p := problem(v1alpha1.ReasonWatchFailed, "", "Cannot watch v1/"+resource+": "+why, kind)
		p.Object = &v1alpha1.ProblemObject{APIVersion: "v1", Resource: resource}
		return p
	}
	things, secrets := of("things", "Forbidden: no"), of("secrets", "Forbidden: no")
	watched := with(fine, kind, metav1.ConditionTrue, v1alpha1.ReasonSynced, "All kinds are watched (1)")
	again := "Normal WatchRestored/Watch VidraResource web: Every kind in the manifest of VidraResource web can be watched again. No longer the case: Cannot watch v1/things: Forbidden: no"
	one := []string{"Warning WatchFailed/Watch VidraResource web: Cannot watch v1/things: Forbidden: no"}
	return map[string]transition{
		"WatchFails":        {reason: "A watch that fails is reported.", before: watched, after: fails(things), want: one},
		"WatchFailsAtFirst": {reason: "Also if it never worked.", after: fails(things), want: one},
		"WatchFailsOtherwise": {
			reason: "How exactly changes from moment to moment.", before: fails(things), after: fails(of("things", "Failed: EOF")),
		},
		"AnotherWatchFails": {
			reason: "Another kind is news, and the first one is not.", before: fails(things), after: fails(secrets, things),
			want: []string{"Warning WatchFailed/Watch VidraResource web: Cannot watch v1/secrets: Forbidden: no"},
		},
		"OneWatchIsBack": {
			reason: "The other one is not.", before: fails(secrets, things), after: fails(things),
			want: []string{"Normal WatchRestored/Watch VidraResource web: No longer the case: Cannot watch v1/secrets: Forbidden: no"},
		},
		"OneForAnother": {
			reason: "Both are said.", before: fails(secrets), after: fails(things),
			want: append([]string{"Normal WatchRestored/Watch VidraResource web: No longer the case: Cannot watch v1/secrets: Forbidden: no"}, one...),
		},
		"WatchIsBack": {reason: "It is reported once, not as a recovery, too.", before: fails(things), after: watched, want: []string{again}},
		"WatchIsStarting": {
			reason: "The API server answers again.", before: fails(things),
			after: with(ready(no, v1alpha1.ReasonStarting, "Starting to watch"), kind, no, v1alpha1.ReasonStarting, "Starting to watch"), want: []string{again},
		},
		"WatchStarts": {
			reason: "What never failed is not restored.", after: watched,
			before: with(ready(no, v1alpha1.ReasonStarting, "Starting to watch"), kind, no, v1alpha1.ReasonStarting, "Starting to watch"),
		},
		"WatchIsNotWanted": {
			reason: "A user who turns events off knows that nothing is watched.", before: with(fine, kind, no, v1alpha1.ReasonWatchFailed, things.Message),
			after: with(fine, kind, no, v1alpha1.ReasonEventsOff, "spec.destination.reconcileOnEvents is false"),
		},
	}
}

// upgradeRows have statuses that an earlier version wrote: they list no problems.
func upgradeRows() map[string]transition {
	unhealthy := with(listing(fine, sick), v1alpha1.ConditionHealthy, metav1.ConditionFalse, v1alpha1.ReasonUnhealthy, "Deployment shop/web: Failed: crashes")
	unknown := sick
	unknown.Object = nil
	altered := with(listing(fine, warned("a", "data.x is 1")), v1alpha1.ConditionWarnings, metav1.ConditionTrue, v1alpha1.ReasonWarned, "ConfigMap shop/a: data.x is 1")
	away := failed(v1alpha1.ReasonDestinationUnreachable, "https://far:6443 is away")
	unwatched := with(failing(problem(v1alpha1.ReasonWatchFailed, "", "Cannot watch v1/things", v1alpha1.ConditionWatching)), v1alpha1.ConditionWatching, metav1.ConditionFalse, v1alpha1.ReasonWatchFailed, "Cannot watch v1/things")
	return map[string]transition{
		"UpgradeWhileBroken":    {reason: "The earlier version reported it.", before: earlier(broken), after: broken},
		"UpgradeWhileUnhealthy": {reason: "So with health.", before: earlier(unhealthy), after: unhealthy},
		"UnhealthySinceUpgrade": {reason: "A problem of no object stands for all.", before: listing(earlier(unhealthy), unknown), after: unhealthy},
		"UpgradeWhileWarned":    {reason: "So with warnings.", before: earlier(altered), after: altered},
		"UpgradeWhileUnwatched": {reason: "So with watches.", before: earlier(unwatched), after: unwatched},
		"UpgradeWhileAway":      {reason: "So with the destination.", before: earlier(away), after: away},
		"UpgradeWhileFine": {
			reason: "Nothing was wrong, so all is news.", before: earlier(fine), after: broken,
			want: []string{"Warning ApplyFailed/Apply VidraResource web: Deployment shop/web: no"},
		},
		"AwaySinceUpgrade": {
			reason: "Another problem of the VidraResource is news, and no object has recovered.", before: earlier(broken), after: away,
			want: []string{"Warning DestinationUnreachable/Connect VidraResource web: https://far:6443 is away"},
		},
		"MendedByUpgrade": {
			reason: "What was wrong is over.", before: earlier(broken), after: fine,
			want: []string{"Normal Recovered/Apply VidraResource web: No longer the case: no"},
		},
		"BackSinceUpgrade": {
			reason: "The destination answers again.", before: earlier(away), after: fine,
			want: []string{"Normal DestinationRestored/Connect VidraResource web: The destination of VidraResource web answers again. No longer the case: https://far:6443 is away"},
		},
	}
}

func healthRows() map[string]transition {
	health := func(status metav1.ConditionStatus, reason string, problems ...v1alpha1.Problem) v1alpha1.VidraResourceStatus {
		return listing(with(fine, v1alpha1.ConditionHealthy, status, reason, ""), problems...)
	}
	ill := func(problems ...v1alpha1.Problem) v1alpha1.VidraResourceStatus {
		return health(metav1.ConditionFalse, v1alpha1.ReasonUnhealthy, problems...)
	}
	other := func(p v1alpha1.Problem, reason, message string) v1alpha1.Problem {
		p.Reason, p.Message = reason, message
		return p
	}
	b, c := corev1.ObjectReference{APIVersion: "batch/v1", Kind: "Job", Namespace: "shop", Name: "b"}, corev1.ObjectReference{APIVersion: "batch/v1", Kind: "Job", Namespace: "shop", Name: "c"}
	healthy := health(metav1.ConditionTrue, v1alpha1.ReasonHealthy)
	rolling := health(metav1.ConditionFalse, v1alpha1.ReasonProgressing, other(sick, v1alpha1.ReasonProgressing, "InProgress: 1 of 2 is ready"))
	falls := []string{"Warning Unhealthy/Check VidraResource web: Deployment shop/web: Failed: crashes"}
	well := "Normal Recovered/Check VidraResource web: No longer the case: Deployment shop/web: Failed: crashes"
	rises := []string{"Normal Healthy/Check VidraResource web: All objects of VidraResource web are healthy"}
	return map[string]transition{
		"FallsIll": {reason: "An object stopped working.", before: healthy, after: ill(sick), want: falls},
		"BornIll":  {reason: "An object never worked.", before: fine, after: ill(sick), want: falls},
		"RollsOutInVain": {
			reason: "What was on its way has failed.", before: rolling, after: ill(sick), want: falls,
		},
		"AnotherFallsIll": {
			reason: "Another object is news, and the first one is not.", before: ill(sick),
			after: ill(sick, of(b, other(sick, v1alpha1.ReasonUnhealthy, "Failed: no")), of(c, other(sick, v1alpha1.ReasonProgressing, "InProgress: runs"))),
			want:  []string{"Warning Unhealthy/Check VidraResource web: Job shop/b: Failed: no"},
		},
		"IllOtherwise": {reason: "Why counts something, and changes from moment to moment.", before: ill(sick), after: ill(other(sick, v1alpha1.ReasonUnhealthy, "Failed: 3 crashes"))},
		"RollsOut":     {reason: "What starts is not ill.", before: healthy, after: rolling},
		"RolledOut":    {reason: "What started works.", before: rolling, after: healthy, want: rises},
		"GetsWell":     {reason: "It works again, and so do all.", before: ill(sick), after: healthy, want: append([]string{well}, rises...)},
		"Restarts":     {reason: "It has not failed any more, and does not work yet.", before: ill(sick), after: rolling, want: []string{well}},
		"OneGetsWell": {
			reason: "The other one has still failed.", before: ill(sick, of(b, other(sick, v1alpha1.ReasonUnhealthy, "Failed: no"))),
			after: ill(of(b, other(sick, v1alpha1.ReasonUnhealthy, "Failed: no"))), want: []string{well},
		},
		"InvalidCheck": {
			reason: "The author can correct it.", before: healthy,
			after: health(metav1.ConditionFalse, v1alpha1.ReasonHealthCheckInvalid, v1alpha1.Problem{Reason: v1alpha1.ReasonHealthCheckInvalid, Message: "current: no", Conditions: []string{v1alpha1.ConditionHealthy}}),
			want:  []string{"Warning HealthCheckInvalid/Check VidraResource web: current: no"},
		},
		"IsHealthy":     {reason: "That it is so from the start is no news.", before: fine, after: healthy},
		"NoLongerAsked": {reason: "No condition says nothing.", before: ill(sick), after: fine},
	}
}

// warned is a warning of the API server about a ConfigMap.
func warned(name, message string) v1alpha1.Problem {
	p := problem(v1alpha1.ReasonWarned, name, message)
	p.Conditions = []string{v1alpha1.ConditionWarnings}
	return p
}

func breakGlassRows() map[string]transition {
	until := metav1.Date(2026, 1, 31, 18, 0, 0, 0, time.UTC)
	answer := func(state v1alpha1.BreakGlassState, message, cluster string) []Change {
		return []Change{{Action: Answered, Object: deployment, Cluster: cluster,
			BreakGlass: &v1alpha1.BreakGlassStatus{State: state, Since: &until, Until: &until, Message: message}}}
	}
	const accepted = "break-glass is accepted until 2026-01-31T18:00:00Z (incident 42). " +
		"Until then VidraResource web reverts no edit of this object and does not delete it; a changed manifest is applied"
	const waits = "the VidraResource is being deleted, and spec.suspend keeps its objects (2) from being removed"
	return map[string]transition{
		"Accepted": {
			reason: "The owner is told, and who annotated the object.", before: fine, after: fine, changes: answer(v1alpha1.BreakGlassAccepted, "incident 42", ""),
			want: []string{
				"Normal BreakGlassAccepted/Exempt VidraResource web: Deployment shop/web: " + accepted,
				"Normal BreakGlassAccepted/Exempt Deployment shop/web: Deployment shop/web: " + accepted,
			},
		},
		"AcceptedElsewhere": {
			reason: "An object of another cluster has no Events here.", before: fine, after: fine, changes: answer(v1alpha1.BreakGlassAccepted, "incident 42", "https://far:6443"),
			want: []string{"Normal BreakGlassAccepted/Exempt VidraResource web: Deployment shop/web: " + accepted},
		},
		"Ignored": {
			reason: "Why is said.", before: fine, after: fine, changes: answer(v1alpha1.BreakGlassIgnored, "no reason", ""),
			want: []string{
				"Warning BreakGlassIgnored/Exempt VidraResource web: Deployment shop/web: break-glass is ignored by VidraResource web: no reason",
				"Warning BreakGlassIgnored/Exempt Deployment shop/web: Deployment shop/web: break-glass is ignored by VidraResource web: no reason",
			},
		},
		"Ended": {
			reason: "So is the end.", before: fine, after: fine, changes: answer(v1alpha1.BreakGlassEnded, "its time is over", ""),
			want: []string{
				"Normal BreakGlassEnded/Exempt VidraResource web: Deployment shop/web: break-glass has ended for VidraResource web: its time is over",
				"Normal BreakGlassEnded/Exempt Deployment shop/web: Deployment shop/web: break-glass has ended for VidraResource web: its time is over",
			},
		},
		"DeletionSuspended": {
			reason: "A deletion that waits is told.", before: fine, after: failed(v1alpha1.ReasonDeletionSuspended, waits),
			want: []string{"Warning DeletionSuspended/Prune VidraResource web: " + waits},
		},
	}
}

func suspendRows() map[string]transition {
	paused := with(fine, v1alpha1.ConditionSuspended, metav1.ConditionTrue, v1alpha1.ReasonSuspended, "spec.suspend is true")
	altered, other := warned("a", "data.x is 1"), warned("b", "data.y is 2")
	return map[string]transition{
		"Warned": {
			reason: "What the API server also does with an object is reported once.", before: fine, after: listing(fine, altered),
			want: []string{"Warning Warned/Apply VidraResource web: ConfigMap shop/a: data.x is 1"},
		},
		"StillWarned": {reason: "The same is no news.", before: listing(fine, altered), after: listing(fine, altered)},
		"WarnedOfAnother": {
			reason: "Only the other warning is news.", before: listing(fine, altered), after: listing(fine, altered, other),
			want: []string{"Warning Warned/Apply VidraResource web: ConfigMap shop/b: data.y is 2"},
		},
		"Paused": {
			reason: "The user paused.", before: fine, after: paused,
			want: []string{"Normal Suspended/Suspend VidraResource web: spec.suspend of VidraResource web is true: no object is written, what changes is reported"},
		},
		"PausedDuringAProblem": {
			reason: "What is not written has not recovered.", before: broken,
			after: with(between(broken, v1alpha1.ReasonSuspended, "Deployment shop/web: is not applied while spec.suspend is true"), v1alpha1.ConditionSuspended, metav1.ConditionTrue, v1alpha1.ReasonSuspended, "spec.suspend is true"),
			want:  []string{"Normal Suspended/Suspend VidraResource web: spec.suspend of VidraResource web is true: no object is written, what changes is reported"},
		},
		"Unpaused": {
			reason: "The user unpaused.", before: paused, after: fine,
			want: []string{"Normal Resumed/Suspend VidraResource web: spec.suspend of VidraResource web is false again: changes made meanwhile are handled as spec.drift specifies"},
		},
	}
}
