package events

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

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
	ReasonDeletionSuspended:      ActionPrune,
}

// IsProblem reports whether the reason of a Ready condition is one that is told in an
// Event.
func IsProblem(reason string) bool { return problems[reason] != "" }

// LastError is what the last error of a status is: what is wrong, or was, and may be
// still, because the objects are under way or cannot be looked at. after has its
// conditions already.
func LastError(before, after v1alpha1.VidraResourceStatus) string {
	ready := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionReady)
	switch {
	case ready == nil || ready.Status == metav1.ConditionTrue:
		return ""
	case stillOpen(openProblems(before), after):
		return before.LastError
	case inProgress(ready.Reason):
		return ""
	}
	return ready.Message
}

// readyEvents tells what is wrong that was not before, and what is not any more.
func readyEvents(owner corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus, changes []Change) []Event {
	is, was := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionReady), openProblems(before)
	var all []Event
	switch {
	case is == nil:
		return nil
	case is.Status != metav1.ConditionTrue && IsProblem(is.Reason):
		known := was
		if readyReason(before) == ReasonDestinationUnreachable {
			known = slices.Concat(was, readyProblems(before))
		}
		for _, group := range grouped(without(readyProblems(after), known), func(p part) string { return p.reason }) {
			e := Event{Type: warning, Reason: group[0].reason, Action: group[0].action(), Regarding: owner}
			all = append(all, eventOf(e, "", group, part.String, after)...)
		}
		was = notMentioned(was, after)
	case stillOpen(was, after):
		return nil
	}
	for _, group := range grouped(resolved(was, after, changes), part.action) {
		e := Event{Type: normal, Reason: ReasonRecovered, Action: group[0].action(), Regarding: owner}
		all = append(all, eventOf(e, "No longer the case: ", group, part.String, after, before)...)
	}
	return all
}

// notMentioned are the parts about objects of which a status with another problem says
// nothing: they are fine. Where it did not look at the objects, or does not name all of
// them, that is not known of any.
func notMentioned(was []part, after v1alpha1.VidraResourceStatus) []part {
	ready := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionReady)
	if meta.IsStatusConditionTrue(after.Conditions, v1alpha1.ConditionStalled) ||
		ready.Reason == ReasonDestinationUnreachable || ready.Reason == ReasonSourceUnavailable {
		return nil
	}
	named := map[string]bool{"": true}
	for message := range strings.SplitSeq(ready.Message, Besides) {
		for text := range strings.SplitSeq(message, Between) {
			if omission.MatchString(text) {
				return nil
			}
		}
		for _, p := range partsOf(message, "") {
			named[p.object] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(was), func(p part) bool { return named[p.object] })
}

// readyProblems is what the Ready condition of a status says to be wrong.
func readyProblems(status v1alpha1.VidraResourceStatus) []part {
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	return partsOf(ready.Message, ready.Reason)
}

// openProblems is what a status says to be wrong of the objects or of the manifest, or
// what an earlier one did and none has said the end of. What has an Event of its own
// for its end is not among it: a watch, the destination, health, a suspension.
func openProblems(status v1alpha1.VidraResourceStatus) []part {
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	switch {
	case ready == nil || ready.Status == metav1.ConditionTrue:
		return nil
	case inProgress(ready.Reason), hidesProblems(status) && status.LastError != "" && status.LastError != ready.Message:
		return lastErrorProblems(status)
	case ready.Reason == ReasonDestinationUnreachable:
		return nil
	case IsProblem(ready.Reason), ready.Reason == ReasonDriftDetected:
		return readyProblems(status)
	}
	return nil
}

// lastErrorProblems are the parts of a last error that is older than the Ready condition. What
// they were is told by what they say.
func lastErrorProblems(status v1alpha1.VidraResourceStatus) []part {
	if strings.HasPrefix(status.LastError, CannotWatch) {
		return nil
	}
	left := driftedObjects(status)
	parts := partsOf(status.LastError, "")
	for i, p := range parts {
		switch {
		case p.reason != "":
		case strings.HasPrefix(p.text, pruneProblem):
			parts[i].reason = ReasonPruneFailed
		case slices.ContainsFunc(left, p.same):
			parts[i].reason = ReasonDriftDetected
		}
	}
	return parts
}

// pruneProblem is how the error of a removal begins.
const pruneProblem = "cannot be removed: "

// inProgress reports whether the reason of a Ready condition means that something is
// being done that may take away what was wrong.
func inProgress(reason string) bool {
	switch reason {
	case v1alpha1.ReasonProgressing, v1alpha1.ReasonStarting, v1alpha1.ReasonDeleting:
		return true
	}
	return false
}

// hidesProblems reports whether a status says nothing of what was wrong before, because the
// objects cannot be looked at, or because they are not written.
func hidesProblems(status v1alpha1.VidraResourceStatus) bool {
	switch readyReason(status) {
	case ReasonDestinationUnreachable:
		return true
	case ReasonSuspended, ReasonDriftDetected:
		return meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionSuspended)
	}
	return false
}

// stillOpen reports whether what was wrong may be so still, though a status does not say
// it. That an object is left as somebody changed it is said whenever it is known.
func stillOpen(was []part, after v1alpha1.VidraResourceStatus) bool {
	is := readyReason(after)
	drift := !slices.ContainsFunc(was, func(p part) bool { return p.reason != ReasonDriftDetected })
	return len(was) > 0 && (is == ReasonDestinationUnreachable || !drift && (inProgress(is) || hidesProblems(after)))
}

// resolved is the part of what was wrong that is told to be over: not what is still left
// as somebody changed it, nor what DriftCorrected tells to be put back.
func resolved(was []part, after v1alpha1.VidraResourceStatus, changes []Change) []part {
	drifted := driftedObjects(after)
	if readyReason(after) == ReasonDriftDetected {
		drifted = append(drifted, readyProblems(after)...)
	}
	left := map[string]bool{}
	for _, p := range drifted {
		left[p.object] = true
	}
	for _, change := range changes {
		switch change.Action {
		case Restored, Recreated, Relabelled:
			left[Name(change.Object)] = true
		case Created, Configured, Pruned, Released, Orphaned, Replaced, Detected, Contended, Settled, Answered:
		}
	}
	return slices.DeleteFunc(slices.Clone(was), func(p part) bool { return p.reason == ReasonDriftDetected && left[p.object] })
}

// driftedObjects are the objects that the Drifted condition names.
func driftedObjects(status v1alpha1.VidraResourceStatus) []part {
	c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionDrifted)
	if c == nil || c.Status != metav1.ConditionTrue {
		return nil
	}
	first, besides, _ := strings.Cut(c.Message, Besides)
	return append(partsOf(first, ""), partsOf(besides, "")...)
}
