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

// readyReason is the reason of the Ready condition, empty if there is none.
func readyReason(status v1alpha1.VidraResourceStatus) string {
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady); c != nil {
		return c.Reason
	}
	return ""
}

// watching tells that a kind cannot be watched, be it one more, and that all can be
// again. That the list is read first is no reason to wait with it.
func watching(owner corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus) []Event {
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
		kind := func(p part) string { return p.object } // why changes from moment to moment
		return tell(Event{Type: warning, Reason: ReasonWatchFailed, Action: ActionWatch, Regarding: owner},
			CannotWatch, news(unwatched(was), unwatched(is), kind), part.head)
	case was == nil || was.Reason != ReasonWatchFailed:
		return nil
	case is.Reason == v1alpha1.ReasonEventsOff: // nobody wants to know any more
		return nil
	}
	return []Event{{
		Type: normal, Reason: ReasonWatchRestored, Action: ActionWatch, Regarding: owner,
		Note: fmt.Sprintf("Every kind in the manifest of VidraResource %s can be watched again", owner.Name),
	}}
}

// connection tells that the destination answers again. That it does not is told
// as the problem that it is.
func connection(owner corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus) []Event {
	was := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionReady)
	is := readyReason(after)
	if was == nil || was.Reason != ReasonDestinationUnreachable || is == ReasonDestinationUnreachable || is == "" {
		return nil // it is asked before anything else is looked at
	}
	note := fmt.Sprintf("The destination of VidraResource %s answers again. No longer the case: %s", owner.Name, was.Message)
	return []Event{{
		Type: normal, Reason: ReasonDestinationRestored, Action: ActionConnect, Regarding: owner, Note: note, Variant: note,
	}}
}

// health tells that objects stopped working, and that all work. That one is
// still starting is neither.
func health(owner corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus) []Event {
	was := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionHealthy)
	is := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionHealthy)
	if is != nil && is.Status == metav1.ConditionTrue && was != nil && was.Status != metav1.ConditionTrue {
		return []Event{{
			Type: normal, Reason: ReasonHealthy, Action: ActionCheck, Regarding: owner,
			Note: fmt.Sprintf("All objects of VidraResource %s are healthy", owner.Name),
		}}
	}
	return tell(Event{Type: warning, Reason: ReasonUnhealthy, Action: ActionCheck, Regarding: owner},
		"", news(ills(was), ills(is), failing), part.head, after)
}

// ills is the message of a Healthy condition that tells of objects that do not work.
func ills(c *metav1.Condition) string {
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason == v1alpha1.ReasonProgressing {
		return ""
	}
	return c.Message
}

// failing is the object and status of a part of a Healthy condition that tells of an
// object that has failed, and is not merely on its way.
func failing(p part) string {
	switch head, _, _ := strings.Cut(p.text, ": "); status.Status(head) {
	case status.FailedStatus, status.UnknownStatus:
		return p.head()
	}
	return ""
}

// warned tells what the API server warns of.
func warned(owner corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus) []Event {
	message := func(s v1alpha1.VidraResourceStatus) string {
		if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionWarnings); c != nil {
			return c.Message
		}
		return ""
	}
	return tell(Event{Type: warning, Reason: ReasonWarned, Action: ActionApply, Regarding: owner},
		"", news(message(before), message(after), part.String), part.String, after)
}

// suspension tells that the user paused, and unpaused.
func suspension(owner corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus) []Event {
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

// news are the parts of a message that an earlier one did not have, as far as key
// tells them apart. A part without a key does not count.
func news(was, is string, key func(part) string) []part {
	known := map[string]bool{"": true}
	for _, p := range partsOf(was, "") {
		known[key(p)] = true
	}
	return slices.DeleteFunc(partsOf(is, ""), func(p part) bool { return known[key(p)] })
}

// tell makes an Event of the parts of a message, if there are any. It is related to
// the object that they are about, if it is one, and in the inventory of a status.
func tell(e Event, prefix string, parts []part, variant func(part) string, statuses ...v1alpha1.VidraResourceStatus) []Event {
	if len(parts) == 0 {
		return nil
	}
	texts, variants := make([]string, 0, len(parts)), make([]string, 0, len(parts))
	for _, p := range parts {
		texts, variants = append(texts, p.String()), append(variants, variant(p))
	}
	e.Note = prefix + join(texts, maxNote-len(prefix))
	e.Variant = join(variants, maxNote)
	if len(parts) == 1 {
		e.Related = inventoried(parts[0].object, statuses)
	}
	return []Event{e}
}

// inventoried refers to the object of a name, if it is in the inventory of a status.
func inventoried(name string, statuses []v1alpha1.VidraResourceStatus) *corev1.ObjectReference {
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
