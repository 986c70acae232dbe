package events

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// Action says what was done to an object.
type Action string

const (
	// Created says that the object did not exist.
	Created Action = "Created"
	// Configured says that the object existed and was changed to what the manifest says.
	Configured Action = "Configured"
	// Restored says that somebody had changed the object, and it was put back.
	Restored Action = "Restored"
	// Recreated says that somebody had deleted the object, and it was put back.
	Recreated Action = "Recreated"
	// Relabelled says that the object had lost the label by which it is watched.
	Relabelled Action = "Relabelled"
	// Pruned says that the object was removed because it left the manifest, or because
	// its VidraResource is going.
	Pruned Action = "Pruned"
	// Detected says that somebody changed the object, and that it is left so.
	Detected Action = "Detected"
	// Contended says that somebody changes the object back again and again.
	Contended Action = "Contended"
	// Settled says that nobody does any more.
	Settled Action = "Settled"
	// Released says that the object was to be removed, and was left to its other owners.
	Released Action = "Released"
	// Orphaned says that the object was to be removed, and was left in place as
	// nobody's.
	Orphaned Action = "Orphaned"
	// Replaced says that the object was deleted, to be created again, because a field of
	// it cannot change.
	Replaced Action = "Replaced"
)

// Change is what was done to one object.
type Change struct {
	Action Action
	// Object that was changed, without a resourceVersion.
	Object corev1.ObjectReference
	// Fields that were put back, or that differ.
	Fields []ownership.Change
	// Note says more: why a change is left, or what to do about it.
	Note string
}

// Event is a Kubernetes Event before it is written.
type Event struct {
	Type      string
	Reason    string
	Action    string
	Note      string
	Regarding corev1.ObjectReference
	Related   *corev1.ObjectReference
	// Fields of the object that were put back, or that differ.
	Fields []ownership.Change
}

// Transitions lists what a person should be told of a pass over a
// VidraResource: from its status before and after, and from what was changed.
func Transitions(owner corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus, changes []Change) []Event {
	// Each generation is a series of its own, or what the first one came to would
	// be the only thing that is told.
	manifest := owner
	manifest.FieldPath = fmt.Sprintf("spec.manifest[generation=%d]", after.ObservedGeneration)
	var all []Event
	all = append(all, applied(manifest, changes)...)
	for _, change := range changes {
		all = append(all, restored(owner, change)...)
		all = append(all, drifted(owner, change)...)
	}
	all = append(all, pruned(manifest, changes)...)
	all = append(all, readiness(manifest, before, after)...)
	return append(all, suspension(owner, before, after)...)
}

// applied tells that a pass created or changed objects.
func applied(owner corev1.ObjectReference, changes []Change) []Event {
	created, configured := 0, 0
	for _, change := range changes {
		switch change.Action {
		case Created:
			created++
		case Configured:
			configured++
		case Restored, Recreated, Relabelled, Pruned, Released, Orphaned, Replaced, Detected, Contended, Settled:
		}
	}
	if created+configured == 0 {
		return nil
	}
	return []Event{{
		Type: corev1.EventTypeNormal, Reason: ReasonApplied, Action: ActionApply, Regarding: owner,
		Note: fmt.Sprintf("Applied the manifest: %d created, %d changed", created, configured),
	}}
}

// restored tells the owner, and whoever looks at the object, what was put back.
func restored(owner corev1.ObjectReference, change Change) []Event {
	what := ""
	switch change.Action {
	case Restored:
		what = "put back " + Fields(change.Fields)
	case Recreated:
		what = "created it again after it had been deleted"
	case Relabelled:
		what = fmt.Sprintf("put back the label %s=%s", v1alpha1.ManagedByLabel, v1alpha1.ManagedByValue)
	case Created, Configured, Pruned, Released, Orphaned, Replaced, Detected, Contended, Settled:
		return nil
	}
	if change.Note != "" {
		what += ". But " + change.Note
	}
	object := change.Object
	object.FieldPath = fieldPath(change.Fields)
	return []Event{{
		Type: corev1.EventTypeNormal, Reason: ReasonDriftCorrected, Action: ActionRestore,
		Regarding: owner, Related: &object, Fields: change.Fields,
		Note: Name(change.Object) + ": " + what,
	}, {
		Type: corev1.EventTypeNormal, Reason: ReasonChangeReverted, Action: ActionRestore,
		Regarding: object, Related: &owner, Fields: change.Fields,
		Note: fmt.Sprintf("VidraResource %s manages this object and %s. To keep a change, make it in spec.manifest of the VidraResource",
			owner.Name, what),
	}}
}

// suspension tells that the user paused, and unpaused.
func suspension(owner corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus) []Event {
	was := meta.IsStatusConditionTrue(before.Conditions, v1alpha1.ConditionSuspended)
	is := meta.IsStatusConditionTrue(after.Conditions, v1alpha1.ConditionSuspended)
	e := Event{Type: corev1.EventTypeNormal, Reason: ReasonSuspended, Action: ActionSuspend, Regarding: owner,
		Note: "spec.suspend is true: no object is written, what changes is reported"}
	switch {
	case was == is:
		return nil
	case was:
		e.Reason, e.Note = ReasonResumed, "spec.suspend is false again: what changed meanwhile is treated as spec.drift says"
	}
	return []Event{e}
}

// pruned tells that objects were removed.
func pruned(owner corev1.ObjectReference, changes []Change) []Event {
	var removed, released, orphaned, parts []string
	for _, change := range changes {
		if change.Action == Pruned {
			removed = append(removed, Name(change.Object))
		}
		if change.Action == Released {
			released = append(released, Name(change.Object))
		}
		if change.Action == Orphaned {
			orphaned = append(orphaned, Name(change.Object))
		}
	}
	if len(removed) > 0 {
		parts = append(parts, "Removed "+strings.Join(removed, ", "))
	}
	if len(released) > 0 {
		parts = append(parts, "Left to their other owners: "+strings.Join(released, ", "))
	}
	if len(orphaned) > 0 {
		parts = append(parts, "Left in place, as nobody's: "+strings.Join(orphaned, ", "))
	}
	if len(parts) == 0 {
		return nil
	}
	return []Event{{
		Type: corev1.EventTypeNormal, Reason: ReasonPruned, Action: ActionPrune, Regarding: owner,
		Note: strings.Join(parts, ". "),
	}}
}

// problems are the reasons of a Ready condition that are told in an Event.
var problems = map[string]string{
	v1alpha1.ReasonManifestInvalid:        ActionApply,
	v1alpha1.ReasonKindUnavailable:        ActionApply,
	v1alpha1.ReasonApplyFailed:            ActionApply,
	v1alpha1.ReasonAdoptionRefused:        ActionApply,
	v1alpha1.ReasonOwnershipConflict:      ActionApply,
	v1alpha1.ReasonManifestEmpty:          ActionApply,
	v1alpha1.ReasonSourceUnavailable:      ActionApply,
	v1alpha1.ReasonServiceAccountRequired: ActionApply,
	v1alpha1.ReasonDestinationUnreachable: "Connect",
	v1alpha1.ReasonPruneFailed:            ActionPrune,
}

// readiness tells that a problem came, changed or went.
func readiness(owner corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus) []Event {
	was, is := problem(before), problem(after)
	switch {
	case is != nil && (was == nil || was.Reason != is.Reason || was.Message != is.Message):
		return []Event{{
			Type: corev1.EventTypeWarning, Reason: is.Reason, Action: problems[is.Reason],
			Regarding: owner, Note: is.Message,
		}}
	case before.LastError != "" && meta.IsStatusConditionTrue(after.Conditions, v1alpha1.ConditionReady):
		return []Event{{
			Type: corev1.EventTypeNormal, Reason: ReasonRecovered, Action: ActionApply,
			Regarding: owner, Note: "No longer the case: " + before.LastError,
		}}
	}
	return nil
}

// problem is the Ready condition of a status if it tells of a problem.
func problem(status v1alpha1.VidraResourceStatus) *metav1.Condition {
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status == metav1.ConditionTrue {
		return nil
	}
	if _, told := problems[ready.Reason]; !told {
		return nil
	}
	return ready
}
