package events

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// pruneProblem is what an error of a removal says, after the object's name. It is
// how the last error tells, once the removal is under way, that it was one.
const pruneProblem = ": cannot be removed: "

// problems are the reasons of a Ready condition that are told in an Event, and
// what has failed then.
var problems = map[string]string{
	ReasonManifestInvalid:        ActionApply,
	ReasonManifestEmpty:          ActionApply,
	ReasonKindUnavailable:        ActionApply,
	ReasonAdoptionRefused:        ActionApply,
	ReasonOwnershipConflict:      ActionApply,
	ReasonNamespaceTerminating:   ActionApply,
	ReasonApplyFailed:            ActionApply,
	ReasonSourceUnavailable:      ActionApply,
	ReasonServiceAccountRequired: ActionApply,
	ReasonDestinationUnreachable: ActionConnect,
	ReasonPruneFailed:            ActionPrune,
}

// readiness tells that a problem came, changed or went.
func readiness(owner corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus) []Event {
	was, is := problem(before), problem(after)
	switch {
	case is != nil && (was == nil || was.Reason != is.Reason || was.Message != is.Message):
		return []Event{{
			Type: warning, Reason: is.Reason, Action: problems[is.Reason],
			Regarding: owner, Note: is.Message, Variant: is.Message,
		}}
	case before.LastError == "" || !meta.IsStatusConditionTrue(after.Conditions, v1alpha1.ConditionReady):
		return nil
	case reason(before, v1alpha1.ConditionReady) == ReasonWatchFailed, reason(before, v1alpha1.ConditionReady) == ReasonDestinationUnreachable:
		return nil // WatchRestored and DestinationRestored tell it
	}
	action := ActionApply
	if was != nil && was.Reason == ReasonPruneFailed || was == nil && strings.Contains(before.LastError, pruneProblem) {
		action = ActionPrune
	}
	return []Event{{
		Type: normal, Reason: ReasonRecovered, Action: action, Regarding: owner,
		Note: "No longer the case: " + before.LastError, Variant: before.LastError,
	}}
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

// reason is the reason of a condition, empty if there is no such condition.
func reason(status v1alpha1.VidraResourceStatus, kind string) string {
	if c := meta.FindStatusCondition(status.Conditions, kind); c != nil {
		return c.Reason
	}
	return ""
}

// watching tells that a kind cannot be watched, and that all can be again. That
// the list is read first is no reason to wait with it.
func watching(owner corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus) []Event {
	was := reason(before, v1alpha1.ConditionWatching) == ReasonWatchFailed
	is := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionWatching)
	switch {
	case is == nil || was == (is.Reason == ReasonWatchFailed):
		return nil
	case !was:
		return []Event{{
			Type: warning, Reason: ReasonWatchFailed, Action: ActionWatch,
			Regarding: owner, Note: is.Message, Variant: is.Message,
		}}
	case is.Reason == v1alpha1.ReasonEventsOff: // nobody wants to know any more
		return nil
	}
	return []Event{{
		Type: normal, Reason: ReasonWatchRestored, Action: ActionWatch, Regarding: owner,
		Note: "Every kind in the manifest can be watched again",
	}}
}

// connection tells that the destination answers again. That it does not is told
// as the problem that it is.
func connection(owner corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus) []Event {
	if reason(before, v1alpha1.ConditionReady) != ReasonDestinationUnreachable {
		return nil
	}
	switch reason(after, v1alpha1.ConditionReady) {
	case "", ReasonDestinationUnreachable, ReasonServiceAccountRequired, ReasonManifestInvalid, ReasonManifestEmpty:
		return nil // it may not have been asked
	}
	return []Event{{
		Type: normal, Reason: ReasonDestinationRestored, Action: ActionConnect, Regarding: owner,
		Note: "The destination answers again",
	}}
}

// health tells that objects stopped working, and that all work. That one is
// still starting is neither.
func health(owner corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus) []Event {
	was := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionHealthy)
	is := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionHealthy)
	switch {
	case unhealthy(is) && (!unhealthy(was) || was.Reason != is.Reason):
		return []Event{{
			Type: warning, Reason: ReasonUnhealthy, Action: ActionCheck,
			Regarding: owner, Note: is.Message, Variant: is.Message,
		}}
	case was == nil || was.Status == metav1.ConditionTrue || is == nil || is.Status != metav1.ConditionTrue:
		return nil
	}
	return []Event{{
		Type: normal, Reason: ReasonHealthy, Action: ActionCheck, Regarding: owner, Note: "All objects are healthy",
	}}
}

// unhealthy says whether a condition Healthy tells of an object that does not
// work.
func unhealthy(c *metav1.Condition) bool {
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason != v1alpha1.ReasonProgressing
}

// warned tells what the API server warns of.
func warned(owner corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus) []Event {
	was := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionWarnings)
	is := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionWarnings)
	if is == nil || was != nil && was.Message == is.Message {
		return nil
	}
	return []Event{{
		Type: warning, Reason: ReasonWarned, Action: ActionApply, Regarding: owner, Note: is.Message, Variant: is.Message,
	}}
}

// suspension tells that the user paused, and unpaused.
func suspension(owner corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus) []Event {
	was := meta.IsStatusConditionTrue(before.Conditions, v1alpha1.ConditionSuspended)
	is := meta.IsStatusConditionTrue(after.Conditions, v1alpha1.ConditionSuspended)
	e := Event{Type: normal, Reason: ReasonSuspended, Action: ActionSuspend, Regarding: owner,
		Note: "spec.suspend is true: no object is written, what changes is reported"}
	switch {
	case was == is:
		return nil
	case was:
		e.Reason, e.Note = ReasonResumed, "spec.suspend is false again: what changed meanwhile is treated as spec.drift says"
	}
	return []Event{e}
}
