package events

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// problems are the reasons of problems of the manifest, of the destination and of objects
// that have an Event when they begin, and the action that failed.
var problems = map[string]string{
	v1alpha1.ReasonManifestInvalid:        ActionApply,
	v1alpha1.ReasonManifestEmpty:          ActionApply,
	v1alpha1.ReasonKindUnavailable:        ActionApply,
	v1alpha1.ReasonOutOfScope:             ActionApply,
	v1alpha1.ReasonAdoptionRefused:        ActionApply,
	v1alpha1.ReasonOwnershipConflict:      ActionApply,
	v1alpha1.ReasonNamespaceTerminating:   ActionApply,
	v1alpha1.ReasonApplyFailed:            ActionApply,
	v1alpha1.ReasonSourceUnavailable:      ActionApply,
	v1alpha1.ReasonServiceAccountRequired: ActionApply,
	v1alpha1.ReasonDestinationUnreachable: ActionConnect,
	v1alpha1.ReasonPruneFailed:            ActionPrune,
	v1alpha1.ReasonDeletionBlocked:        ActionPrune,
	v1alpha1.ReasonDeletionSuspended:      ActionPrune,
}

// IsProblem reports whether a problem with a reason has an Event when it begins, and one when it ends, as problemEvents
// returns them. The Events of watches, health, warnings and ignore rules are returned elsewhere.
func IsProblem(reason string) bool { return problems[reason] != "" }

// problemEvents reports the problems that began and those that ended.
func problemEvents(owner corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus, changes []Change) []Event {
	var all []Event
	reason := func(p v1alpha1.Problem) string { return p.Reason }
	for _, group := range grouped(begun(before, after, IsProblem, withStableMessage), reason) {
		e := Event{Type: warning, Reason: group[0].Reason, Action: problems[group[0].Reason], Regarding: owner}
		all = append(all, eventOf(e, "", group, after.ManagedResources, true)...)
	}
	action := func(p v1alpha1.Problem) string {
		if p.Reason == v1alpha1.ReasonDriftDetected {
			return ActionDetect
		}
		return problems[p.Reason]
	}
	for _, group := range grouped(followed(ended(before, after, changes), after), action) {
		all = append(all, recoveredEvents(owner, action(group[0]), group, after.ManagedResources)...)
	}
	return all
}

// followed adds to the messages of problems that ended the present state of their objects, where these are unready for another reason: an
// object that waits for the deletion of its kind has not recovered.
func followed(over []v1alpha1.Problem, after v1alpha1.VidraResourceStatus) []v1alpha1.Problem {
	now := map[v1alpha1.Subject]string{}
	for _, p := range after.Problems {
		if p.Object != nil && p.In(v1alpha1.ConditionReady) {
			now[p.Subject()] = p.Message
		}
	}
	for i, p := range over {
		if text, waits := now[p.Subject()]; waits {
			over[i].Message += ". It is not ready: " + text
		}
	}
	return over
}

// noLonger begins the note of the Event about the end of a problem.
const noLonger = "No longer the case: "

// recoveredEvents reports problems that are over.
func recoveredEvents(owner corev1.ObjectReference, action string, over []v1alpha1.Problem, managed []v1alpha1.ManagedResourceStatus) []Event {
	return eventOf(Event{Type: normal, Reason: ReasonRecovered, Action: action, Regarding: owner}, noLonger, over, managed, true)
}

// gone returns the problems with a reason that a status has and a later one lacks. If the later status lists only
// some, none is known to be over.
func gone(before, after v1alpha1.VidraResourceStatus, reason string, key func(v1alpha1.Problem) problemKey) []v1alpha1.Problem {
	if after.UnlistedProblems > 0 {
		return nil
	}
	open := map[problemKey]bool{}
	for _, p := range after.Problems {
		open[key(p)] = true
	}
	return slices.DeleteFunc(slices.Clone(before.Problems), func(p v1alpha1.Problem) bool { return p.Reason != reason || open[key(p)] })
}

// problemKey identifies a problem in two statuses.
type problemKey struct {
	subject         v1alpha1.Subject
	reason, message string
}

// withMessage returns the key of a problem that is another one with another message.
func withMessage(p v1alpha1.Problem) problemKey {
	return problemKey{p.Subject(), p.Reason, p.Message}
}

// withStableMessage is withMessage, except for a blocked deletion: a terminating Namespace counts its remaining objects.
func withStableMessage(p v1alpha1.Problem) problemKey {
	if p.Reason == v1alpha1.ReasonDeletionBlocked {
		return withoutMessage(p)
	}
	return withMessage(p)
}

// withoutMessage returns the key of a problem whose message changes from moment to moment.
func withoutMessage(p v1alpha1.Problem) problemKey {
	return problemKey{subject: p.Subject(), reason: p.Reason}
}

// Begun returns the problems with an Event that a status has and another one lacks, whatever their messages.
func Begun(before, after v1alpha1.VidraResourceStatus) []v1alpha1.Problem {
	known := map[problemKey]bool{}
	for _, p := range before.Problems {
		known[withoutMessage(p)] = true
	}
	return slices.DeleteFunc(slices.Clone(after.Problems), func(p v1alpha1.Problem) bool { return !IsProblem(p.Reason) || known[withoutMessage(p)] })
}

// begun returns the problems with some reasons that a status has and an earlier one lacks.
// After a status of an earlier version, which lists none, only a problem of the VidraResource
// with another reason is new. One that is known of no object stands for all.
func begun(before, after v1alpha1.VidraResourceStatus, some func(reason string) bool, key func(v1alpha1.Problem) problemKey) []v1alpha1.Problem {
	known, unlisted := map[problemKey]bool{}, ofEarlierVersion(before)
	for _, p := range before.Problems {
		known[key(p)] = true
	}
	if unlisted {
		for _, c := range before.Conditions {
			known[problemKey{reason: c.Reason}] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(after.Problems), func(p v1alpha1.Problem) bool {
		return !some(p.Reason) || known[key(p)] || known[problemKey{reason: p.Reason}] || unlisted && p.Object != nil
	})
}

// ended returns the problems of a status that a later one lacks: its object has no problem of another kind either, and the
// drift of its object was not reverted, which DriftCorrected reports. If the later status lists only some, problems of
// applied objects alone are known to be over.
func ended(before, after v1alpha1.VidraResourceStatus, changes []Change) []v1alpha1.Problem {
	open := map[v1alpha1.Subject]bool{}
	for _, p := range after.Problems {
		if IsProblem(p.Reason) || p.Reason == v1alpha1.ReasonDriftDetected || p.Reason == v1alpha1.ReasonDriftContended {
			open[p.Subject()] = true
		}
	}
	was := before.Problems
	switch {
	case after.UnlistedProblems > 0:
		was = withoutUnlisted(was, after)
	case ofEarlierVersion(before) && !ofEarlierVersion(after) && len(open) == 0:
		was = []v1alpha1.Problem{{Reason: readyReason(before), Message: before.LastError}}
	}
	reverted := map[v1alpha1.Subject]bool{}
	for _, change := range changes {
		if change.Action.Reverts() {
			reverted[subjectOf(change.Object)] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(was), func(p v1alpha1.Problem) bool {
		reported := IsProblem(p.Reason) && p.Reason != v1alpha1.ReasonDestinationUnreachable
		unreverted := p.Reason == v1alpha1.ReasonDriftDetected && p.In(v1alpha1.ConditionReady) && !reverted[p.Subject()]
		return open[p.Subject()] || !reported && !unreverted
	})
}

// withoutUnlisted returns the problems that a later status would list if they lasted, although it lists only some: problems
// of applied objects that had failed.
func withoutUnlisted(was []v1alpha1.Problem, after v1alpha1.VidraResourceStatus) []v1alpha1.Problem {
	applied := map[v1alpha1.Subject]bool{}
	for _, e := range after.ManagedResources {
		if e.State == v1alpha1.ObjectApplied || e.State == v1alpha1.ObjectCompleted {
			applied[subjectOf(corev1.ObjectReference{APIVersion: e.APIVersion, Kind: e.Kind, Namespace: e.Namespace, Name: e.Name})] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(was), func(p v1alpha1.Problem) bool { return !applied[p.Subject()] })
}

// ofEarlierVersion reports whether an earlier version wrote a status with a problem: it listed no problems.
func ofEarlierVersion(status v1alpha1.VidraResourceStatus) bool {
	reasons := []string{v1alpha1.ReasonWatchFailed, v1alpha1.ReasonUnhealthy, v1alpha1.ReasonWarned}
	wrong := func(c metav1.Condition) bool { return slices.Contains(reasons, c.Reason) }
	return len(status.Problems) == 0 && (status.LastError != "" || slices.ContainsFunc(status.Conditions, wrong))
}

// subjectOf returns an object as the subject of a problem.
func subjectOf(ref corev1.ObjectReference) v1alpha1.Subject {
	return v1alpha1.Subject{Group: ref.GroupVersionKind().Group, Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name}
}

// grouped returns the problems that have the same by, in the order of the first ones.
func grouped(all []v1alpha1.Problem, by func(v1alpha1.Problem) string) [][]v1alpha1.Problem {
	var groups [][]v1alpha1.Problem
	for _, p := range all {
		i := slices.IndexFunc(groups, func(group []v1alpha1.Problem) bool { return by(group[0]) == by(p) })
		if i < 0 {
			i, groups = len(groups), append(groups, nil)
		}
		groups[i] = append(groups[i], p)
	}
	return groups
}

// eventOf returns an Event with the messages of problems, if any. If it is
// about one object, it is related to that; otherwise it has all objects. distinct reports that another message is another
// series.
func eventOf(e Event, prefix string, all []v1alpha1.Problem, managed []v1alpha1.ManagedResourceStatus, distinct bool) []Event {
	if len(all) == 0 {
		return nil
	}
	var texts, variants []part
	names := ProblemNames(all, managed)
	for i, p := range all {
		text := part{names[i], p.Message}
		texts = append(texts, text)
		if !distinct {
			text = part{subjectText(p.Subject()), p.Reason}
		}
		variants = append(variants, text)
		if o := p.Object; o != nil && o.Name != "" {
			object := corev1.ObjectReference{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
			e.Objects = append(e.Objects, Object{Reference: object})
		}
	}
	e.Note, e.Variant = prefix+join(texts, MaxNote-len(prefix)), join(variants, MaxNote)
	if len(all) == 1 && len(e.Objects) == 1 {
		e.Related = &e.Objects[0].Reference
	}
	return []Event{e}
}

// ProblemNames returns the names of the objects of problems, with the groups of kinds that are ambiguous among them and the inventory;
// empty for a problem that is not about one object.
func ProblemNames(all []v1alpha1.Problem, managed []v1alpha1.ManagedResourceStatus) []string {
	kinds := kindsOf(managed)
	for _, p := range all {
		if s := p.Subject(); s.Name != "" {
			kinds.Add(schema.GroupKind{Group: s.Group, Kind: s.Kind})
		}
	}
	names := make([]string, len(all))
	for i, p := range all {
		if s := p.Subject(); s.Name != "" {
			names[i] = kinds.Name(schema.GroupKind{Group: s.Group, Kind: s.Kind}, s.Namespace, s.Name)
		}
	}
	return names
}

// subjectText returns a text that is another one for another subject.
func subjectText(s v1alpha1.Subject) string {
	return s.Group + "/" + s.Kind + s.Resource + " " + s.Namespace + "/" + s.Name
}

// readyReason returns the reason of the Ready condition, or empty.
func readyReason(status v1alpha1.VidraResourceStatus) string {
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady); c != nil {
		return c.Reason
	}
	return ""
}
