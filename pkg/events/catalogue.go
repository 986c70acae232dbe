package events

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Reasons of Events. Where one speaks of a problem, the condition that speaks
// of it has the same reason.
const (
	ReasonApplied                = "Applied"
	ReasonManifestInvalid        = "ManifestInvalid"
	ReasonManifestEmpty          = "ManifestEmpty"
	ReasonSourceUnavailable      = "SourceUnavailable"
	ReasonServiceAccountRequired = "ServiceAccountRequired"
	ReasonKindUnavailable        = "KindUnavailable"
	ReasonAdoptionRefused        = "AdoptionRefused"
	ReasonOwnershipConflict      = "OwnershipConflict"
	ReasonNamespaceTerminating   = "NamespaceTerminating"
	ReasonApplyFailed            = "ApplyFailed"
	ReasonReplaced               = "Replaced"
	ReasonWarned                 = "Warned"
	ReasonRecovered              = "Recovered"
	ReasonDriftDetected          = "DriftDetected"
	ReasonDriftCorrected         = "DriftCorrected"
	ReasonChangeReverted         = "ChangeReverted"
	ReasonDriftContended         = "DriftContended"
	ReasonDriftSettled           = "DriftSettled"
	ReasonPruned                 = "Pruned"
	ReasonPruneFailed            = "PruneFailed"
	ReasonWatchFailed            = "WatchFailed"
	ReasonWatchRestored          = "WatchRestored"
	ReasonDestinationUnreachable = "DestinationUnreachable"
	ReasonDestinationRestored    = "DestinationRestored"
	ReasonUnhealthy              = "Unhealthy"
	ReasonHealthy                = "Healthy"
	ReasonSuspended              = "Suspended"
	ReasonResumed                = "Resumed"
	ReasonDeletionSuspended      = "DeletionSuspended"
	ReasonBreakGlassAccepted     = "BreakGlassAccepted"
	ReasonBreakGlassIgnored      = "BreakGlassIgnored"
	ReasonBreakGlassEnded        = "BreakGlassEnded"
)

// Actions of Events: what Vidra was doing.
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

// Entry says what an Event with a reason means.
type Entry struct {
	// Reason, as `kubectl get events` shows it.
	Reason string
	// Type is Normal or Warning.
	Type string
	// Actions with which the reason occurs. Most have one.
	Actions []string
	// OnObject says that the Event regards the managed object; all others regard
	// the VidraResource.
	OnObject bool
	// OnBoth says that there are two such Events: one regards the VidraResource, the
	// other one the managed object, unless that is in another cluster.
	OnBoth bool
	// When is what has happened.
	When string
	// Do is what a person can do about it.
	Do string
}

// Catalogue lists every Event that there is, in the order of docs/events.md.
func Catalogue() []Entry { return slices.Clone(catalogue) }

const (
	normal  = corev1.EventTypeNormal
	warning = corev1.EventTypeWarning
)

var catalogue = []Entry{
	{
		Reason: ReasonApplied, Type: normal, Actions: []string{ActionApply},
		When: "A pass created or changed objects as `spec.manifest` says. The note has how many.",
		Do:   "Nothing.",
	}, {
		Reason: ReasonManifestInvalid, Type: warning, Actions: []string{ActionApply},
		When: "The manifest or an ignore rule cannot be read, or the API server calls an object invalid. What was applied before stays. While a manifest in the spec cannot be read, edits are reported and not reverted.",
		Do:   "Fix `spec.manifest`. The note names the document, the object and the field.",
	}, {
		Reason: ReasonManifestEmpty, Type: warning, Actions: []string{ActionApply},
		When: "The manifest holds no object. What was applied before stays. Edits are reported and not reverted.",
		Do:   "If everything is to go, delete the VidraResource. Otherwise look at what writes the manifest: a template may have rendered nothing.",
	}, {
		Reason: ReasonSourceUnavailable, Type: warning, Actions: []string{ActionApply},
		When: "A ConfigMap or Secret that `spec.manifestFrom` names, or a key of it, is missing or cannot be read. Vidra applies no new manifest and removes nothing. It reverts edits to what it read last, unless the spec changed or Vidra was restarted.",
		Do:   "Create it, or mark it as optional. Vidra notices.",
	}, {
		Reason: ReasonServiceAccountRequired, Type: warning, Actions: []string{ActionApply},
		When: "The operator runs with `--require-service-account`, and `spec.serviceAccountName` is not set, or names an account of kube-system or of the namespace of the operator. Or it runs with `--impersonation-namespaces`, and the namespace of the account does not have these labels. Nothing is applied or removed: a VidraResource that is being deleted waits.",
		Do:   "Set it, and grant that account what the manifest needs. Where a VidraResource that is being deleted is to leave its objects in place, set `spec.deletionPolicy: Orphan`.",
	}, {
		Reason: ReasonKindUnavailable, Type: warning, Actions: []string{ActionApply},
		When: "The kind of an object is not served. The object is applied at once when it is.",
		Do:   "Install the CustomResourceDefinition, or correct apiVersion and kind.",
	}, {
		Reason: ReasonAdoptionRefused, Type: warning, Actions: []string{ActionApply},
		When: "An object exists, Vidra does not manage it, and `spec.adopt` says not to take it as it is. The note has what differs.",
		Do:   "Make the manifest say what the object has, set `spec.adopt: Always`, or delete the object.",
	}, {
		Reason: ReasonOwnershipConflict, Type: warning, Actions: []string{ActionApply},
		When: "Another VidraResource wants another value in the same field of the same object.",
		Do:   "Leave the field to one of the two: the note names both, and the field.",
	}, {
		Reason: ReasonNamespaceTerminating, Type: warning, Actions: []string{ActionApply},
		When: "The namespace of an object is being deleted, so nothing is put back there. When it is there again, it is filled.",
		Do:   "If that was meant, delete the VidraResource, or remove the object from the manifest. Otherwise create the namespace again when it is gone.",
	}, {
		Reason: ReasonApplyFailed, Type: warning, Actions: []string{ActionApply},
		When: "An object, or one more, was not accepted for another cause: missing rights, a quota, a webhook, a missing namespace. It is tried again.",
		Do:   "Read the note, which has the answer of the API server.",
	}, {
		Reason: ReasonWarned, Type: warning, Actions: []string{ActionApply},
		When: "The API server took an object and warned of it, of an old version for example, or holds it with another value than it was sent, because a mutating webhook changed it. The value is not put back: the webhook would change it again.",
		Do:   "Read the note. Make the manifest say what the webhook makes of it, leave the field out, or change the webhook.",
	}, {
		Reason: ReasonReplaced, Type: normal, Actions: []string{ActionApply},
		When: "A field that cannot change differs from the manifest, so the object was deleted, to be created again: `spec.force` says so. The note has the field.",
		Do:   "Nothing.",
	}, {
		Reason: ReasonRecovered, Type: normal, Actions: []string{ActionApply, ActionPrune, ActionDetect},
		When: "A problem of the manifest or of an object is over, or nobody's change is left any more. Where several objects had failed, each is told when it is mended, unless more than 20 fail still. The action is the one that had failed, Detect after a change that was left; the note says what was wrong. A watch, the destination, health and a suspension have Events of their own for their ends.",
		Do:   "Nothing.",
	}, {
		Reason: ReasonDriftDetected, Type: warning, Actions: []string{ActionDetect},
		When: "Somebody changed or deleted an object, and it is left so: `spec.drift`, `spec.suspend` or a break-glass annotation says that. The note has fields, values, who, and why.",
		Do:   "Put the change into the manifest, or undo it, or end what keeps Vidra from doing so.",
	}, {
		Reason: ReasonDriftCorrected, Type: normal, Actions: []string{ActionRestore},
		When: "Somebody changed or deleted an object, and it was put back. The note has the fields, old and new values, what the same edit had added, and the field manager; of an object that was deleted, or that had lost the label by which it is watched, it says that, and which fields were put back besides if there are any.",
		Do:   "To keep the change, make it in `spec.manifest`, or leave the field to others with `spec.drift.ignore`.",
	}, {
		Reason: ReasonChangeReverted, Type: normal, Actions: []string{ActionRestore}, OnObject: true,
		When: "The same as DriftCorrected, told at the object, where whoever changed it looks. It names the VidraResource. Objects in other clusters have none.",
		Do:   "As for DriftCorrected. The operator's flag `--object-events=false` turns these Events off.",
	}, {
		Reason: ReasonDriftContended, Type: warning, Actions: []string{ActionRestore},
		When: "Another writer keeps changing an object: one of its fields was reverted more often within a minute than `spec.drift.healsPerMinute` says (default 5). The note names the writer, the field, and the ignore rule that leaves the field to it. Vidra goes on reverting it. Only under sustained load it does so less often: after 100 reverts of the object, 10 a second in the first minute and 1 a second after it, and at the latest after `spec.drift.maxExposure` (default 10 s).",
		Do:   "Stop the other writer, or add the rule that the note has to `spec.drift.ignore`.",
	}, {
		Reason: ReasonDriftSettled, Type: normal, Actions: []string{ActionRestore},
		When: "An object is no longer contended: no other writer has changed it for a minute.",
		Do:   "Nothing.",
	}, {
		Reason: ReasonPruned, Type: normal, Actions: []string{ActionPrune},
		When: "Objects left the manifest, or their VidraResource is going. The note says which were removed, which were left to other owners, and which were left in place.",
		Do:   "Nothing.",
	}, {
		Reason: ReasonPruneFailed, Type: warning, Actions: []string{ActionPrune},
		When: "An object that is to go cannot be removed. It is tried again, and stays in the inventory.",
		Do:   "Read the note, which has the answer of the API server.",
	}, {
		Reason: ReasonWatchFailed, Type: warning, Actions: []string{ActionWatch},
		When: "A kind of the manifest cannot be watched, or one more. Until it can, changes are found at the next interval only.",
		Do:   "Read the note: missing rights to list and watch, a kind that is not served, a broken conversion webhook.",
	}, {
		Reason: ReasonWatchRestored, Type: normal, Actions: []string{ActionWatch},
		When: "Every kind of the manifest can be watched again. What changed meanwhile is found.",
		Do:   "Nothing.",
	}, {
		Reason: ReasonDestinationUnreachable, Type: warning, Actions: []string{ActionConnect},
		When: "The destination cluster does not answer, refuses the credentials, or no Secret with the label `cluster-kubeconfig` tells how to reach it. What was applied stays in the inventory.",
		Do:   "Read the note: look at the network, or mend the Secret that it names. Vidra goes on trying, and notices both.",
	}, {
		Reason: ReasonDestinationRestored, Type: normal, Actions: []string{ActionConnect},
		When: "The destination cluster answers again. The note says what had kept it.",
		Do:   "Nothing.",
	}, {
		Reason: ReasonUnhealthy, Type: warning, Actions: []string{ActionCheck},
		When: "The objects are applied, and one of them, or one more, has failed, as its own status says (kstatus). That one is still starting is not told.",
		Do:   "Look at the object that the note names, and at what it makes, such as its Pods.",
	}, {
		Reason: ReasonHealthy, Type: normal, Actions: []string{ActionCheck},
		When: "All objects work, as far as their status says, after one did not or was not there yet.",
		Do:   "Nothing.",
	}, {
		Reason: ReasonSuspended, Type: normal, Actions: []string{ActionSuspend},
		When: "`spec.suspend` became true: no object is written, what changes is reported.",
		Do:   "Nothing.",
	}, {
		Reason: ReasonResumed, Type: normal, Actions: []string{ActionSuspend},
		When: "`spec.suspend` is no longer true: what changed meanwhile is treated as `spec.drift` says.",
		Do:   "Nothing.",
	}, {
		Reason: ReasonDeletionSuspended, Type: warning, Actions: []string{ActionPrune},
		When: "A VidraResource was deleted while `spec.suspend` is true. Its objects are not removed, and it waits.",
		Do:   "Set `spec.suspend` to false to have the objects removed, or `spec.deletionPolicy` to Orphan to leave them in place.",
	}, {
		Reason: ReasonBreakGlassAccepted, Type: normal, Actions: []string{ActionExempt}, OnBoth: true,
		When: "The break-glass annotations of an object were accepted, or now have another end. The note says until when, which may be earlier than asked for.",
		Do:   "Put what has to stay into the manifest before the time is over.",
	}, {
		Reason: ReasonBreakGlassIgnored, Type: warning, Actions: []string{ActionExempt}, OnBoth: true,
		When: "The break-glass annotations of an object have no effect. The note says why.",
		Do:   "Correct the annotations, or ask who may change `spec.drift.maxBreakGlass`.",
	}, {
		Reason: ReasonBreakGlassEnded, Type: normal, Actions: []string{ActionExempt}, OnBoth: true,
		When: "The exemption of an object is over. The note says why. What was changed is reverted, unless `spec.drift` or `spec.suspend` says otherwise.",
		Do:   "Nothing.",
	},
}
