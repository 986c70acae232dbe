package status

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
)

const (
	// maxProblems is how many bytes the list of problems in a status has at most, as JSON.
	maxProblems = 64 << 10
	// maxNamed is how many problems a message names.
	maxNamed = 20
	// maxPart is how many bytes a message has for one problem of several, with the name of
	// its object, which has up to 400.
	maxPart = 640
	// maxList is how many bytes the problems in a message have together.
	maxList = 7680
)

// severity orders the reasons of problems: the first one that occurs is the reason of the
// condition. A test requires that it has each reason.
var severity = []string{
	v1alpha1.ReasonServiceAccountRequired, v1alpha1.ReasonDestinationUnreachable, v1alpha1.ReasonOutOfScope, v1alpha1.ReasonDeletionSuspended,
	v1alpha1.ReasonSourceUnavailable, v1alpha1.ReasonManifestEmpty, v1alpha1.ReasonManifestInvalid, v1alpha1.ReasonApplyFailed,
	v1alpha1.ReasonAdoptionRefused, v1alpha1.ReasonOwnershipConflict, v1alpha1.ReasonPruneFailed, v1alpha1.ReasonDeletionBlocked,
	v1alpha1.ReasonKindUnavailable, v1alpha1.ReasonNamespaceTerminating, v1alpha1.ReasonDriftContended,
	v1alpha1.ReasonDriftDetected, v1alpha1.ReasonSuspended, v1alpha1.ReasonRevisionHeld, v1alpha1.ReasonDependencyNotReady, v1alpha1.ReasonDeleting, v1alpha1.ReasonWatchFailed, v1alpha1.ReasonHealthCheckInvalid, v1alpha1.ReasonUnhealthy,
	v1alpha1.ReasonProgressing, v1alpha1.ReasonStarting, v1alpha1.ReasonWarned, v1alpha1.ReasonNearSizeLimit, v1alpha1.ReasonNothingMatches,
}

// problemKey identifies a problem in two statuses. Only problems that an object may have several times with one reason differ
// by their messages.
type problemKey struct {
	subject                    v1alpha1.Subject
	condition, reason, message string
}

func keyOfProblem(p *v1alpha1.Problem) problemKey {
	key := problemKey{subject: p.Subject(), condition: p.Conditions[0], reason: p.Reason}
	if p.Reason == v1alpha1.ReasonWarned || p.Reason == v1alpha1.ReasonNothingMatches {
		key.message = p.Message
	}
	return key
}

// problems returns the problems after a reconcile, the worst first: the known ones, and former ones that may last.
func (o *Outcome) problems(before v1alpha1.VidraResourceStatus) []v1alpha1.Problem {
	all := o.known(before)
	unwatched := slices.ContainsFunc(all, func(p v1alpha1.Problem) bool { return p.In(v1alpha1.ConditionWatching) })
	was, listed, waits := map[problemKey]metav1.Time{}, map[problemKey]bool{}, map[v1alpha1.Subject]bool{}
	for i := range before.Problems {
		was[keyOfProblem(&before.Problems[i])] = before.Problems[i].Since
	}
	for i := range all {
		p := &all[i]
		since, found := was[keyOfProblem(p)]
		if p.Since = since; !found {
			p.Since = metav1.NewTime(o.now.Truncate(time.Second))
		}
		listed[keyOfProblem(p)] = true
		waits[p.Subject()] = waits[p.Subject()] || p.Transient && p.Object != nil && p.In(v1alpha1.ConditionReady)
	}
	for _, p := range before.Problems {
		if !listed[keyOfProblem(&p)] && o.mayStand(&p, waits[p.Subject()]) {
			belongs := p.Conditions[0]
			p.Unconfirmed = p.Unconfirmed || o.unread() || belongs == v1alpha1.ConditionReady || belongs == v1alpha1.ConditionDrifted && unwatched ||
				belongs == v1alpha1.ConditionHealthy && o.Deleting
			all = append(all, p)
		}
	}
	sortBySeverity(all)
	return all
}

// sortBySeverity sorts problems, the worst first.
func sortBySeverity(all []v1alpha1.Problem) {
	slices.SortStableFunc(all, func(a, b v1alpha1.Problem) int {
		return slices.Index(severity, a.Reason) - slices.Index(severity, b.Reason)
	})
}

// unread reports that the reconcile failed to read the manifest or to reach the destination.
func (o *Outcome) unread() bool { return o.Obstacles.Stalled != nil || o.Obstacles.Blocked != nil }

// known returns the problems that a reconcile knows.
func (o *Outcome) known(before v1alpha1.VidraResourceStatus) []v1alpha1.Problem {
	var all []v1alpha1.Problem
	add := func(why *object.Failure, more string) {
		if why != nil {
			all = append(all, object.ProblemOf(nil, why.Reason, why.Message+more, v1alpha1.ConditionReady))
		}
	}
	add(o.Obstacles.Stalled, "")
	add(o.Obstacles.Blocked, "")
	if o.unread() {
		if o.Obstacles.Compared {
			all = append(all, inCondition(o.objects.problems, v1alpha1.ConditionDrifted)...)
		}
		return all
	}
	add(o.Obstacles.Waiting, "")
	add(o.Obstacles.Source, ". Vidra continues to use what it read before")
	all = append(all, o.objects.problems...)
	if o.Deleting && len(inCondition(all, v1alpha1.ConditionReady)) == 0 {
		why := &object.Failure{Reason: v1alpha1.ReasonDeleting, Message: "Waiting until the last object is gone"}
		if o.Finalizers != "" {
			why = &object.Failure{Reason: v1alpha1.ReasonDeletionBlocked, Message: fmt.Sprintf(
				"all objects are removed or released, and the VidraResource waits for the finalizers of other controllers (%s)", o.Finalizers)}
		}
		add(why, "")
	}
	all = append(all, watchProblems(o, plan.Watched(before, o.vr.Generation))...)
	if o.Unobserved != nil && !wasReady(before, o.vr.Generation) { // an interrupted stream does not end Ready
		all = append(all, object.ProblemOf(o.Unobserved, v1alpha1.ReasonProgressing, "is applied, and its watch has not shown it yet", v1alpha1.ConditionReady))
	}
	all = append(all, healthProblems(o, before)...)
	for _, rule := range o.objects.unmatched {
		all = append(all, object.ProblemOf(nil, v1alpha1.ReasonNothingMatches, "Nothing in the manifest is matched by "+rule, v1alpha1.ConditionUnmatchedIgnoreRules))
	}
	return append(all, o.objects.warnings...)
}

// mayStand reports whether a problem of the status before, which is unknown to the reconcile,
// may still stand. waits reports that its object waits for something.
func (o *Outcome) mayStand(p *v1alpha1.Problem, waits bool) bool {
	reported := events.IsProblem(p.Reason) && p.Reason != v1alpha1.ReasonDestinationUnreachable
	switch p.Conditions[0] {
	case v1alpha1.ConditionReady:
		prunes := p.Reason == v1alpha1.ReasonPruneFailed || p.Reason == v1alpha1.ReasonDeletionBlocked // a deletion tries each removal
		return reported && (o.unread() || o.vr.Spec.Suspend && (prunes || o.objects.wanted[p.Subject()]) || o.Deleting && !prunes || waits)
	case v1alpha1.ConditionDrifted:
		return o.unread() && !o.Obstacles.Compared || !o.unread() && o.objects.unjudged && !p.Transient
	case v1alpha1.ConditionWarnings:
		return o.unread() || o.objects.warnings == nil
	case v1alpha1.ConditionHealthy:
		return o.unread() || o.Health == nil
	}
	return o.unread()
}

// inCondition returns the problems that are part of a condition, but for the unconfirmed ones.
func inCondition(all []v1alpha1.Problem, condition string) []v1alpha1.Problem {
	var some []v1alpha1.Problem
	for _, p := range all {
		if !p.Unconfirmed && p.In(condition) {
			some = append(some, p)
		}
	}
	return some
}

// bounded returns as many problems as a status may have, and how many it leaves out.
func bounded(all []v1alpha1.Problem) ([]v1alpha1.Problem, int32) {
	room := maxProblems
	for i := range all {
		text, err := json.Marshal(all[i])
		if room -= len(text); i == v1alpha1.MaxProblems || err != nil || room < 0 {
			return all[:i:i], int32(len(all) - i) //nolint:gosec // bounded by the size of a manifest
		}
	}
	return all, 0
}

// describe returns the reason of a condition, and a message that names its problems, which
// are sorted; else empty. managed is the inventory.
func describe(all []v1alpha1.Problem, managed []v1alpha1.ManagedResourceStatus) (reason, message string) {
	if len(all) == 0 {
		return "", ""
	}
	reason = all[0].Reason
	var shown []string
	room := maxList
	names := events.ProblemNames(all, managed)
	for i, p := range all {
		text := p.Message
		switch name := names[i]; {
		case name != "" && p.Reason != reason:
			text = name + ": " + p.Reason + ": " + text
		case name != "":
			text = name + ": " + text
		}
		if len(all) > 1 {
			text = display.Truncate(text, maxPart)
		}
		if room -= len(text); i == maxNamed || i > 0 && room < 0 {
			shown = append(shown, fmt.Sprintf("and %d more", len(all)-i))
			break
		}
		shown = append(shown, text)
	}
	return reason, strings.Join(shown, "; ")
}
