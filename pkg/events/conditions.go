package events

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// watchEvents reports each kind that can no longer be watched, and that all kinds can be
// watched again.
func watchEvents(owner corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus) []Event {
	was := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionWatching)
	is := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionWatching)
	if is != nil && was != nil && was.Reason == ReasonWatchFailed && is.Reason != ReasonWatchFailed && is.Reason != v1alpha1.ReasonEventsOff {
		return []Event{{
			Type: normal, Reason: ReasonWatchRestored, Action: ActionWatch, Regarding: owner,
			Note: fmt.Sprintf("Every kind in the manifest of VidraResource %s can be watched again", owner.Name),
		}}
	}
	return eventOf(Event{Type: warning, Reason: ReasonWatchFailed, Action: ActionWatch, Regarding: owner},
		"", begun(before, after, only(ReasonWatchFailed), withoutMessage), false)
}

// only returns a function that reports whether a reason is the given one.
func only(reason string) func(string) bool { return func(other string) bool { return other == reason } }

// destinationEvents reports that the destination answers again. problemEvents reports that it
// does not.
func destinationEvents(owner corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus) []Event {
	was := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionReady)
	is := readyReason(after)
	if was == nil || was.Reason != ReasonDestinationUnreachable || is == ReasonDestinationUnreachable || is == "" {
		return nil // the destination is checked first in each reconcile
	}
	note := fmt.Sprintf("The destination of VidraResource %s answers again. No longer the case: %s", owner.Name, was.Message)
	return []Event{{
		Type: normal, Reason: ReasonDestinationRestored, Action: ActionConnect, Regarding: owner, Note: note, Variant: note,
	}}
}

// healthEvents reports objects that have failed, and that all objects are healthy. An object
// that is still starting is neither.
func healthEvents(owner corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus) []Event {
	was := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionHealthy)
	is := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionHealthy)
	if is != nil && is.Status == metav1.ConditionTrue && was != nil && was.Status != metav1.ConditionTrue {
		return []Event{{
			Type: normal, Reason: ReasonHealthy, Action: ActionCheck, Regarding: owner,
			Note: fmt.Sprintf("All objects of VidraResource %s are healthy", owner.Name),
		}}
	}
	return eventOf(Event{Type: warning, Reason: ReasonUnhealthy, Action: ActionCheck, Regarding: owner},
		"", begun(before, after, only(ReasonUnhealthy), withoutMessage), false)
}

// warningEvents reports the warnings of the API server.
func warningEvents(owner corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus) []Event {
	return eventOf(Event{Type: warning, Reason: ReasonWarned, Action: ActionApply, Regarding: owner},
		"", begun(before, after, only(ReasonWarned), withMessage), true)
}

// suspensionEvents reports that spec.suspend became true or false.
func suspensionEvents(owner corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus) []Event {
	was := meta.IsStatusConditionTrue(before.Conditions, v1alpha1.ConditionSuspended)
	is := meta.IsStatusConditionTrue(after.Conditions, v1alpha1.ConditionSuspended)
	e := Event{Type: normal, Reason: ReasonSuspended, Action: ActionSuspend, Regarding: owner,
		Note: fmt.Sprintf("spec.suspend of VidraResource %s is true: no object is written, what changes is reported", owner.Name)}
	switch {
	case was == is:
		return nil
	case was:
		e.Reason = ReasonResumed
		e.Note = fmt.Sprintf("spec.suspend of VidraResource %s is false again: changes made meanwhile are handled as spec.drift specifies", owner.Name)
	}
	return []Event{e}
}
