package events

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// readyReason returns the reason of the Ready condition; empty if there is none.
func readyReason(status v1alpha1.VidraResourceStatus) string {
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady); c != nil {
		return c.Reason
	}
	return ""
}

// watchEvents reports each kind that can no longer be watched, and that all kinds can be
// watched again.
func watchEvents(owner corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus) []Event {
	was := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionWatching)
	is := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionWatching)
	unwatched := func(c *metav1.Condition) string {
		if c == nil || c.Reason != ReasonWatchFailed {
			return ""
		}
		return strings.TrimPrefix(c.Message, CannotWatch)
	}
	switch {
	case is == nil:
		return nil
	case is.Reason == ReasonWatchFailed:
		kind := func(p part) string { return p.object } // the cause may change at any time
		return eventOf(Event{Type: warning, Reason: ReasonWatchFailed, Action: ActionWatch, Regarding: owner},
			CannotWatch, newParts(unwatched(was), unwatched(is), kind), part.head)
	case was == nil || was.Reason != ReasonWatchFailed:
		return nil
	case is.Reason == v1alpha1.ReasonEventsOff: // events are off, so the end is not reported
		return nil
	}
	return []Event{{
		Type: normal, Reason: ReasonWatchRestored, Action: ActionWatch, Regarding: owner,
		Note: fmt.Sprintf("Every kind in the manifest of VidraResource %s can be watched again", owner.Name),
	}}
}

// destinationEvents reports that the destination answers again. readyEvents reports that it
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
		"", newParts(unhealthyMessage(was), unhealthyMessage(is), failedStatus), part.head, after)
}

// unhealthyMessage returns the message of a Healthy condition that reports failed objects, and
// an empty one otherwise.
func unhealthyMessage(c *metav1.Condition) string {
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason == v1alpha1.ReasonProgressing {
		return ""
	}
	return c.Message
}

// failedStatus returns the object and status of a part of a Healthy condition if the object
// has failed, and an empty text if it is in progress.
func failedStatus(p part) string {
	switch head, _, _ := strings.Cut(p.text, ": "); status.Status(head) {
	case status.FailedStatus, status.UnknownStatus:
		return p.head()
	}
	return ""
}

// warningEvents reports the warnings of the API server.
func warningEvents(owner corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus) []Event {
	message := func(s v1alpha1.VidraResourceStatus) string {
		if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionWarnings); c != nil {
			return c.Message
		}
		return ""
	}
	return eventOf(Event{Type: warning, Reason: ReasonWarned, Action: ActionApply, Regarding: owner},
		"", newParts(message(before), message(after), part.String), part.String, after)
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
		e.Note = fmt.Sprintf("spec.suspend of VidraResource %s is false again: what changed meanwhile is treated as spec.drift says", owner.Name)
	}
	return []Event{e}
}

// newParts returns the parts of a message that an earlier message did not have, compared by
// key. Parts with an empty key are ignored.
func newParts(was, is string, key func(part) string) []part {
	known := map[string]bool{"": true}
	for _, p := range partsOf(was, "") {
		known[key(p)] = true
	}
	return slices.DeleteFunc(partsOf(is, ""), func(p part) bool { return known[key(p)] })
}

// eventOf returns an Event with the parts of a message; none if there are no parts. If there
// is one part, about an object in the inventory of a status, the Event is related to it.
func eventOf(e Event, prefix string, parts []part, variant func(part) string, statuses ...v1alpha1.VidraResourceStatus) []Event {
	if len(parts) == 0 {
		return nil
	}
	texts, variants := make([]string, 0, len(parts)), make([]string, 0, len(parts))
	for _, p := range parts {
		texts, variants = append(texts, p.String()), append(variants, variant(p))
	}
	e.Note = prefix + join(texts, MaxNote-len(prefix))
	e.Variant = join(variants, MaxNote)
	if len(parts) == 1 {
		e.Related = inventoryReference(parts[0].object, statuses)
	}
	return []Event{e}
}

// inventoryReference returns a reference to the object with a name, if it is in the inventory
// of a status.
func inventoryReference(name string, statuses []v1alpha1.VidraResourceStatus) *corev1.ObjectReference {
	for _, status := range statuses {
		for _, entry := range status.ManagedResources {
			ref := corev1.ObjectReference{APIVersion: entry.APIVersion, Kind: entry.Kind, Namespace: entry.Namespace, Name: entry.Name}
			if Name(ref) == name {
				return &ref
			}
		}
	}
	return nil
}
