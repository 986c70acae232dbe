package events

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// readyEvents reports that Ready became True for the first time.
func readyEvents(owner corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus) []Event {
	is := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionReady)
	if before.FirstReadyTime != nil || after.FirstReadyTime == nil || is == nil || is.Status != metav1.ConditionTrue {
		return nil
	}
	return []Event{{
		Type: normal, Reason: ReasonReady, Action: ActionCheck, Regarding: owner,
		Note: fmt.Sprintf("VidraResource %s is Ready for the first time: %s", owner.Name, is.Message),
	}}
}

// watchEvents reports each kind that can no longer be watched, and each that can be watched again.
func watchEvents(owner corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus) []Event {
	was := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionWatching)
	is := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionWatching)
	var all []Event
	if is != nil && was != nil && was.Reason == v1alpha1.ReasonWatchFailed && is.Reason != v1alpha1.ReasonEventsOff {
		restored := Event{Type: normal, Reason: ReasonWatchRestored, Action: ActionWatch, Regarding: owner}
		complete := fmt.Sprintf("Every kind in the manifest of VidraResource %s can be watched again", owner.Name)
		all = eventOf(restored, noLonger, gone(before, after, v1alpha1.ReasonWatchFailed, withoutMessage), nil, false)
		switch {
		case is.Reason == v1alpha1.ReasonWatchFailed:
		case len(all) == 0: // an earlier version wrote the status
			restored.Note = complete
			all = []Event{restored}
		default:
			all[0].Note, all[0].Variant = complete+". "+all[0].Note, complete+". "+all[0].Variant
		}
	}
	return append(all, eventOf(Event{Type: warning, Reason: v1alpha1.ReasonWatchFailed, Action: ActionWatch, Regarding: owner},
		"", begun(before, after, only(v1alpha1.ReasonWatchFailed), withoutMessage), nil, false)...)
}

// only returns a function that reports whether a reason is the given one.
func only(reason string) func(string) bool { return func(other string) bool { return other == reason } }

// destinationEvents reports that the destination answers again. problemEvents reports the
// opposite.
func destinationEvents(owner corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus) []Event {
	was := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionReady)
	is := readyReason(after)
	if was == nil || was.Reason != v1alpha1.ReasonDestinationUnreachable || is == v1alpha1.ReasonDestinationUnreachable || is == "" {
		return nil // the destination is checked first in each reconcile
	}
	note := fmt.Sprintf("The destination of VidraResource %s answers again. No longer the case: %s", owner.Name, was.Message)
	return []Event{{
		Type: normal, Reason: ReasonDestinationRestored, Action: ActionConnect, Regarding: owner, Note: note, Variant: note,
	}}
}

// healthEvents reports objects that have failed, those that have recovered, and that all objects
// are healthy. An object that is still starting is left out.
func healthEvents(owner corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus) []Event {
	was := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionHealthy)
	is := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionHealthy)
	var all []Event
	if is != nil { // otherwise nothing is known of health
		well := slices.DeleteFunc(gone(before, after, v1alpha1.ReasonUnhealthy, withoutMessage), func(p v1alpha1.Problem) bool { return p.Object == nil })
		all = recoveredEvents(owner, ActionCheck, well, after.ManagedResources)
	}
	if is != nil && is.Status == metav1.ConditionTrue && was != nil && was.Status != metav1.ConditionTrue {
		all = append(all, Event{
			Type: normal, Reason: v1alpha1.ReasonHealthy, Action: ActionCheck, Regarding: owner,
			Note: fmt.Sprintf("All objects of VidraResource %s are healthy", owner.Name),
		})
	}
	all = append(all, eventOf(Event{Type: warning, Reason: v1alpha1.ReasonHealthCheckInvalid, Action: ActionCheck, Regarding: owner},
		"", begun(before, after, only(v1alpha1.ReasonHealthCheckInvalid), withMessage), after.ManagedResources, true)...)
	return append(all, eventOf(Event{Type: warning, Reason: v1alpha1.ReasonUnhealthy, Action: ActionCheck, Regarding: owner},
		"", begun(before, after, only(v1alpha1.ReasonUnhealthy), withoutMessage), after.ManagedResources, false)...)
}

// warnings are the reasons of problems that leave Ready as it is, with the reasons of their Events.
var warnings = []struct{ reason, event string }{
	{v1alpha1.ReasonWarned, v1alpha1.ReasonWarned}, {v1alpha1.ReasonNearSizeLimit, v1alpha1.ReasonNearSizeLimit}, {v1alpha1.ReasonNothingMatches, ReasonUnmatchedIgnoreRules},
}

// warningEvents reports problems that leave Ready as it is, and their ends.
func warningEvents(owner corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus) []Event {
	var all []Event
	for _, w := range warnings {
		all = append(all, eventOf(Event{Type: warning, Reason: w.event, Action: ActionApply, Regarding: owner},
			"", begun(before, after, only(w.reason), withMessage), after.ManagedResources, true)...)
		all = append(all, recoveredEvents(owner, ActionApply, gone(before, after, w.reason, withMessage), after.ManagedResources)...)
	}
	return all
}

// suspensionEvents reports that spec.suspend became true or false.
func suspensionEvents(owner corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus) []Event {
	was := meta.IsStatusConditionTrue(before.Conditions, v1alpha1.ConditionSuspended)
	is := meta.IsStatusConditionTrue(after.Conditions, v1alpha1.ConditionSuspended)
	e := Event{Type: normal, Reason: v1alpha1.ReasonSuspended, Action: ActionSuspend, Regarding: owner,
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
