package events

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// Reasons of Events, beside the reasons of conditions in package v1alpha1: an Event about a problem has the reason of its condition.
const (
	ReasonReady                = "Ready"
	ReasonReplaced             = "Replaced"
	ReasonKindChanged          = "KindChanged"
	ReasonUnmatchedIgnoreRules = "UnmatchedIgnoreRules"
	ReasonRecovered            = "Recovered"
	ReasonDriftCorrected       = "DriftCorrected"
	ReasonChangeReverted       = "ChangeReverted"
	ReasonDriftSettled         = "DriftSettled"
	ReasonCompleted            = "Completed"
	ReasonPruned               = "Pruned"
	ReasonDeletionStarted      = "DeletionStarted"
	ReasonWatchRestored        = "WatchRestored"
	ReasonDestinationRestored  = "DestinationRestored"
	ReasonKubeconfigChanged    = "KubeconfigChanged"
	ReasonResumed              = "Resumed"
	ReasonBreakGlassAccepted   = "BreakGlassAccepted"
	ReasonBreakGlassIgnored    = "BreakGlassIgnored"
	ReasonBreakGlassEnded      = "BreakGlassEnded"
)

// Actions of Events: the activity of the reconciler.
const (
	ActionApply   = "Apply"
	ActionRestore = "Restore"
	ActionPrune   = "Prune"
	ActionDetect  = "Detect"
	ActionWatch   = "Watch"
	ActionConnect = "Connect"
	ActionCheck   = "Check"
	ActionSuspend = "Suspend"
	ActionExempt  = "Exempt"
)

// Entry describes the Events with a reason.
type Entry struct {
	// Reason is the reason, as `kubectl get events` shows it.
	Reason string
	// Type is Normal or Warning.
	Type string
	// Actions of the Events with the reason. Most have one.
	Actions []string
	// OnObject is whether the Event regards the managed object instead of the
	// VidraResource.
	OnObject bool
	// OnBoth is whether there are two such Events: one regards the VidraResource, the other
	// the managed object, if that is in the same cluster.
	OnBoth bool
	// When describes the occurrence.
	When string
	// Do describes the next step of the user.
	Do string
}

// Catalogue returns the entries of all reasons, in the order of docs/events.md.
func Catalogue() []Entry { return slices.Clone(catalogue) }

const (
	normal  = corev1.EventTypeNormal
	warning = corev1.EventTypeWarning
)

var catalogue = []Entry{
	{
		Reason: v1alpha1.ReasonApplied, Type: normal, Actions: []string{ActionApply},
		When: "A reconcile created or changed objects as the manifest says. The note has how many, and names them.",
		Do:   "Nothing.",
	}, {
		Reason: v1alpha1.ReasonProgressing, Type: normal, Actions: []string{ActionApply},
		When: "An apply takes longer than 10 seconds. The note has how many objects are applied so far, of those that differed from the manifest or were new, and how many failed. There is one every 10 seconds for a minute, if more objects are done, and then one after 80 seconds, 160 seconds and so on. What failed has an Event with a reason of its own at the same time.",
		Do:   "Nothing. If the API server is slow, look for a slow admission webhook.",
	}, {
		Reason: ReasonReady, Type: normal, Actions: []string{ActionCheck},
		When: "The condition Ready became True for the first time: all objects are applied and watched, and healthy if `spec.wait` is true. `status.firstReadyTime` has the time.",
		Do:   "Nothing.",
	}, {
		Reason: v1alpha1.ReasonManifestInvalid, Type: warning, Actions: []string{ActionApply},
		When: "The manifest or an ignore rule cannot be read, or the API server calls an object invalid. What was applied before stays. While a manifest in the spec cannot be read, edits are reported and not reverted.",
		Do:   "Fix `spec.manifest`. The note names the document, the object and the field.",
	}, {
		Reason: v1alpha1.ReasonManifestEmpty, Type: warning, Actions: []string{ActionApply},
		When: "The manifest holds no object. What was applied before stays. Edits are reported and not reverted.",
		Do:   "To remove all objects, delete the VidraResource. Otherwise see what writes the manifest: a template may have rendered nothing.",
	}, {
		Reason: v1alpha1.ReasonSourceUnavailable, Type: warning, Actions: []string{ActionApply},
		When: "A ConfigMap, Secret or source of Flux that `spec.manifestFrom` names, or a key of it, is missing or cannot be read. Vidra applies no new manifest and removes nothing. It reverts edits to what it read last, unless the spec changed, or Vidra was restarted and the manifest comes from ConfigMaps and Secrets alone.",
		Do:   "Create it, or mark it as optional. Vidra notices it.",
	}, {
		Reason: v1alpha1.ReasonServiceAccountRequired, Type: warning, Actions: []string{ActionApply},
		When: "The operator runs with `--require-service-account`, and `spec.serviceAccountName` is not set, or names an account of kube-system or of the namespace of the operator. Or it runs with `--impersonation-namespaces`, and the namespace of the account does not have these labels. Nothing is applied or removed: a VidraResource that is being deleted waits.",
		Do:   "Set it, and grant that account what the manifest needs. To delete the VidraResource and leave its objects in place, set `spec.deletionPolicy: Orphan`.",
	}, {
		Reason: v1alpha1.ReasonOutOfScope, Type: warning, Actions: []string{ActionApply},
		When: "An object is in a namespace in which this Vidra does nothing, or in none, because the operator runs with `--namespaces`, or because the kubeconfig has the annotation `allowed-namespaces`. Vidra sends no request about it: it is not applied, and what was applied before stays and is remembered. Objects in other namespaces are managed on.",
		Do:   "Move or remove the object, or add its namespace to the flag or to the annotation, with the rights there. To delete the VidraResource and leave such objects in place, set `spec.deletionPolicy: Orphan`.",
	}, {
		Reason: v1alpha1.ReasonKindUnavailable, Type: warning, Actions: []string{ActionApply},
		When: "The API server does not serve the kind of an object. When it does, the object is applied at once.",
		Do:   "Install the CustomResourceDefinition, or correct apiVersion and kind.",
	}, {
		Reason: v1alpha1.ReasonAdoptionRefused, Type: warning, Actions: []string{ActionApply},
		When: "An object exists that Vidra does not manage, and `spec.adopt` forbids to take it. The note has the fields that differ.",
		Do:   "Make the manifest equal to the object, set `spec.adopt: Always`, or delete the object.",
	}, {
		Reason: v1alpha1.ReasonOwnershipConflict, Type: warning, Actions: []string{ActionApply},
		When: "Another VidraResource wants another value in the same field of the same object.",
		Do:   "Remove the field from one of the two manifests. The note names both VidraResources, and the field.",
	}, {
		Reason: v1alpha1.ReasonNamespaceTerminating, Type: warning, Actions: []string{ActionApply},
		When: "The namespace of an object is being deleted, so nothing is reverted there. When the namespace exists again, Vidra creates the object again.",
		Do:   "If the deletion is intended, delete the VidraResource, or remove the object from the manifest. Otherwise create the namespace again when it is gone.",
	}, {
		Reason: v1alpha1.ReasonApplyFailed, Type: warning, Actions: []string{ActionApply},
		When: "The API server did not accept an object, or one more: a missing right, a quota, a webhook, a missing namespace, an immutable field. Vidra retries it.",
		Do:   "Read the note, which has the answer of the API server.",
	}, {
		Reason: v1alpha1.ReasonWarned, Type: warning, Actions: []string{ActionApply},
		When: "The API server accepted an object with a warning, for example about a deprecated version, or stored it with another value, because a mutating webhook changed it. Vidra does not revert the value: the webhook would change it again.",
		Do:   "Read the note. Set the value of the webhook in the manifest, remove the field from it, or change the webhook.",
	}, {
		Reason: v1alpha1.ReasonNearSizeLimit, Type: warning, Actions: []string{ActionApply},
		When: "The VidraResource takes more than 80 % of the bytes that it may have with the status of its objects. Beyond the limit nothing is applied.",
		Do:   "Move the manifest into ConfigMaps with `spec.manifestFrom`, or make several VidraResources of it.",
	}, {
		Reason: ReasonReplaced, Type: normal, Actions: []string{ActionApply},
		When: "An immutable field differed from the manifest, so Vidra deleted the object, to create it again, as `spec.force` allows. The note has the field.",
		Do:   "Nothing.",
	}, {
		Reason: ReasonKindChanged, Type: normal, Actions: []string{ActionApply},
		When: "The manifest has an object with another kind or in another version than before. The note has both. An object with another kind is another object: the one before left the manifest.",
		Do:   "Nothing.",
	}, {
		Reason: ReasonUnmatchedIgnoreRules, Type: warning, Actions: []string{ActionApply},
		When: "A rule of `spec.drift.ignore` matches nothing in the manifest, so it has no effect. The condition UnmatchedIgnoreRules has the rule, too.",
		Do:   "Correct the rule, or remove it.",
	}, {
		Reason: ReasonRecovered, Type: normal, Actions: []string{ActionApply, ActionPrune, ActionDetect, ActionCheck},
		When: "A problem of the manifest or of an object is over, also while others last: a failure, a change that was not reverted, an object that had failed by its own status, a warning, an ignore rule that matched nothing. The note says what was wrong. The action is the one that had failed, Detect after a change that was not reverted, or Check where the object had failed by its own status and has not any more. The ends of failures of a watch and of the destination, and of a suspension, have Events of their own.",
		Do:   "Nothing.",
	}, {
		Reason: v1alpha1.ReasonDriftDetected, Type: warning, Actions: []string{ActionDetect}, OnBoth: true,
		When: "An object was changed or deleted, and Vidra does not revert that, because of `spec.drift`, `spec.suspend` or break-glass. The note has fields, values, the field manager, and the cause. The Event that regards the object names the VidraResource.",
		Do:   "Put the change into the manifest, undo it, or end the exception.",
	}, {
		Reason: ReasonDriftCorrected, Type: normal, Actions: []string{ActionRestore},
		When: "An object was changed or deleted, and Vidra reverted that. The note has the fields, old and new values, what the same edit had added, and the field manager, with the user where `config/policies/stamp` is installed. For an object that was deleted, or that had lost the label by which it is watched, the note says so, and names further fields that were reverted. It ends with where to change the object, if there is room: the part of the manifest (`spec.manifest`, or the key of a ConfigMap or Secret), the document and the line.",
		Do:   "To keep the change, make it in the manifest, or add an ignore rule to `spec.drift.ignore`.",
	}, {
		Reason: ReasonChangeReverted, Type: normal, Actions: []string{ActionRestore}, OnObject: true,
		When: "The same as DriftCorrected, regarding the object, where its user finds it. The note names the VidraResource. Objects in other clusters have none.",
		Do:   "As for DriftCorrected. The operator's flag `--object-events=false` turns these Events off.",
	}, {
		Reason: v1alpha1.ReasonDriftContended, Type: warning, Actions: []string{ActionRestore},
		When: "Another writer keeps changing an object: Vidra reverted one of its fields more often within a minute than `spec.drift.healsPerMinute` (default 5). The note names the writer, the field, and the ignore rule that ends the contention. Vidra keeps reverting it. Only under sustained load reverts are delayed: after 100 reverts of the object, 10 a second in the first minute and 1 a second after it, and at the latest after `spec.drift.maxExposure` (default 10 s).",
		Do:   "Stop the other writer, or add the rule of the note to `spec.drift.ignore`.",
	}, {
		Reason: ReasonDriftSettled, Type: normal, Actions: []string{ActionRestore},
		When: "An object is no longer contended: no other writer has changed it for a minute.",
		Do:   "Nothing.",
	}, {
		Reason: ReasonCompleted, Type: normal, Actions: []string{ActionDetect},
		When: "An object ended successfully and its own controller removed it, for example a Job with `ttlSecondsAfterFinished`. The same is assumed where such an object was removed while no watch showed it. Vidra does not create it again. Or a user deleted an object that Vidra creates once, by the annotation `run-once` or `apply: CreateOnly`.",
		Do:   "Nothing. To have it created again, change the object in the manifest, for example an annotation of it.",
	}, {
		Reason: ReasonPruned, Type: normal, Actions: []string{ActionPrune},
		When: "Objects left the manifest, or their VidraResource is being deleted. The note says which were deleted, which stay because another VidraResource owns them, and which stay unmanaged.",
		Do:   "Nothing.",
	}, {
		Reason: v1alpha1.ReasonPruneFailed, Type: warning, Actions: []string{ActionPrune},
		When: "An object that left the manifest, or whose VidraResource is being deleted, cannot be removed. Vidra retries it, and the object stays in the inventory.",
		Do:   "Read the note, which has the answer of the API server.",
	}, {
		Reason: ReasonDeletionStarted, Type: normal, Actions: []string{ActionPrune},
		When: "The VidraResource is being deleted. The note has how many objects Vidra removes, or leaves in place as `spec.deletionPolicy` says.",
		Do:   "Nothing.",
	}, {
		Reason: v1alpha1.ReasonDeletionBlocked, Type: warning, Actions: []string{ActionPrune},
		When: "An object that Vidra removes, or that another client deleted, has been terminating for 30 seconds or more, and waits for its finalizers, which the note names; or the VidraResource itself waits for finalizers of other controllers, after all its objects are gone. Vidra removes no finalizer of another controller.",
		Do:   "Fix the controller that the finalizer belongs to. If that controller is gone for good, remove the finalizer from the object.",
	}, {
		Reason: v1alpha1.ReasonWatchFailed, Type: warning, Actions: []string{ActionWatch},
		When: "A kind of the manifest, or one more, cannot be watched. Until it can, changes are found at the next interval only.",
		Do:   "Read the note: missing rights to list and watch, a kind that is not served, a broken conversion webhook.",
	}, {
		Reason: ReasonWatchRestored, Type: normal, Actions: []string{ActionWatch},
		When: "A kind that could not be watched can be watched again, or is not in the manifest any more. The note says so where every kind is watched again. Vidra finds what changed meanwhile.",
		Do:   "Nothing.",
	}, {
		Reason: v1alpha1.ReasonDestinationUnreachable, Type: warning, Actions: []string{ActionConnect},
		When: "The destination cluster does not answer or refuses the credentials, or no Secret with the label `cluster-kubeconfig` has a kubeconfig for it. What was applied stays in the inventory.",
		Do:   "Read the note: fix the network, or the Secret that it names. Vidra keeps retrying, and notices both.",
	}, {
		Reason: ReasonDestinationRestored, Type: normal, Actions: []string{ActionConnect},
		When: "The destination cluster answers again. The note says what was wrong.",
		Do:   "Nothing.",
	}, {
		Reason: ReasonKubeconfigChanged, Type: normal, Actions: []string{ActionConnect},
		When: "The kubeconfig of the destination was changed, and Vidra uses it from now on. Vidra notices that without a restart, and after one, too. If the destination is another cluster now, a second note names the objects in the former one, which stay there.",
		Do:   "Nothing for a rotation. If the note names objects in a former cluster, remove them there, or return to its kubeconfig.",
	}, {
		Reason: v1alpha1.ReasonUnhealthy, Type: warning, Actions: []string{ActionCheck},
		When: "The objects are applied, and one of them, or one more, has failed, as its own status says (kstatus, or `spec.healthChecks`). An object that is still starting has no Event.",
		Do:   "See the object that the note names, and the objects that it creates, such as its Pods.",
	}, {
		Reason: v1alpha1.ReasonHealthCheckInvalid, Type: warning, Actions: []string{ActionCheck},
		When: "An expression of `spec.healthChecks` is invalid. The note has the field, the place in the expression and the fault. Until it is corrected, kstatus computes the health of the kind.",
		Do:   "Correct the expression.",
	}, {
		Reason: v1alpha1.ReasonHealthy, Type: normal, Actions: []string{ActionCheck},
		When: "All objects are healthy, as far as their status says, after one was not or did not exist yet.",
		Do:   "Nothing.",
	}, {
		Reason: v1alpha1.ReasonSuspended, Type: normal, Actions: []string{ActionSuspend},
		When: "`spec.suspend` became true: Vidra writes no object, and reports changes.",
		Do:   "Nothing.",
	}, {
		Reason: ReasonResumed, Type: normal, Actions: []string{ActionSuspend},
		When: "`spec.suspend` is no longer true: changes made meanwhile are handled as `spec.drift` says.",
		Do:   "Nothing.",
	}, {
		Reason: v1alpha1.ReasonDeletionSuspended, Type: warning, Actions: []string{ActionPrune},
		When: "A VidraResource was deleted while `spec.suspend` is true. Its objects are not removed, and it waits.",
		Do:   "Set `spec.suspend: false` to remove the objects, or `spec.deletionPolicy: Orphan` to leave them in place.",
	}, {
		Reason: ReasonBreakGlassAccepted, Type: normal, Actions: []string{ActionExempt}, OnBoth: true,
		When: "The break-glass annotations of an object were accepted, or now have another end. The note says until when, which may be earlier than asked for.",
		Do:   "Put changes that have to stay into the manifest before the time is over.",
	}, {
		Reason: ReasonBreakGlassIgnored, Type: warning, Actions: []string{ActionExempt}, OnBoth: true,
		When: "The break-glass annotations of an object have no effect. The note says why.",
		Do:   "Correct the annotations, or ask a user who may change `spec.drift.maxBreakGlass`.",
	}, {
		Reason: ReasonBreakGlassEnded, Type: normal, Actions: []string{ActionExempt}, OnBoth: true,
		When: "The exemption of an object is over. The note says why. Vidra reverts its changes, unless `spec.drift` or `spec.suspend` prevents that.",
		Do:   "Nothing.",
	},
}
