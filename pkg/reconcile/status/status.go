package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// Outcome is the knowledge of a reconcile at its end. Conclusion adds the unexported part.
type Outcome struct {
	Obstacles Obstacles
	// All reports that every object was considered.
	All bool
	// Synced reports that this reconcile applied the rest of the manifest.
	Synced bool
	// Unobserved is an object that its watch is still to show as it was applied, if
	// any.
	Unobserved *v1alpha1.ProblemObject
	Health     *plan.HealthReport
	// Deleting reports that the VidraResource is being deleted; Finalizers are the finalizers of other
	// controllers that it still has when its objects are gone.
	Deleting   bool
	Finalizers string

	vr       v1alpha1.VidraResource
	objects  objectFacts
	watching plan.Watching
	origin   plan.Origin
	now      time.Time
}

// Obstacles are the obstacles to the work of a reconcile; each is nil without one.
type Obstacles struct {
	// Stalled is the obstacle to all work, and its reason.
	Stalled *object.Failure
	// Compared reports that the objects were compared nevertheless.
	Compared bool
	// Blocked is the obstacle to all work at present.
	Blocked *object.Failure
	// Source is the obstacle to reading parts of the manifest, while the parts of the last read
	// are kept.
	Source *object.Failure
	// Waiting is the reason that a newer manifest is still to be applied.
	Waiting *object.Failure
}

// objectFacts are the facts about the objects.
type objectFacts struct {
	// problems are the problems of the objects, in their order.
	problems []v1alpha1.Problem
	// entries is the inventory, sorted.
	entries []v1alpha1.ManagedResourceStatus
	// warnings are the warnings of the API server; nil if unknown.
	warnings []v1alpha1.Problem
	// unjudged reports that drift may be missing here that the status names, because no
	// watch has shown its objects since this process began.
	unjudged bool
	// unmatched are the ignore rules that match nothing.
	unmatched []string
	// wanted are the objects of the manifest while suspended, if the status before has problems.
	wanted map[v1alpha1.Subject]bool
	// waits reports that an object would be written if the VidraResource were not suspended.
	waits bool
}

// Conclusion adds the states of the objects to an outcome.
func (p *Recorder) Conclusion(o *Outcome) {
	s := p.Plan.State
	o.vr, o.watching, o.origin, o.now = *p.Plan.VR, s.Watching, s.Origin, p.Plan.Now
	o.All = p.Plan.Scope.All || o.Obstacles.Stalled != nil || o.Obstacles.Blocked != nil // then nothing else is reported
	o.Unobserved = s.Objects.UnobservedObject()
	o.objects.warnings = withNearLimit(s.WarningProblems(), s.Remarks.NearLimit)
	o.objects.problems, o.objects.unmatched = s.ObjectProblems(p.Plan.Findings.PendingDrift), s.Remarks.Unmatched
	o.objects.unjudged = s.Inherited.Unjudged && p.Plan.Settings.Additions.Policy != v1alpha1.AdditionsKeep
	o.objects.waits = p.Plan.Findings.Waits
	if o.vr.Spec.Suspend && len(s.Status.Problems) > 0 {
		o.objects.wanted = s.Objects.Subjects()
	}
	o.objects.entries = s.Entries()
	if unknown := o.Obstacles.Blocked != nil || o.Obstacles.Stalled != nil && !o.Obstacles.Compared; unknown && !s.Origin.Emptied && len(s.Status.ManagedResources) > 0 { // the annotation may have others
		o.objects.entries = slices.Clone(s.Status.ManagedResources)
	}
	if p.Plan.Scope.All && !o.unread() && !s.Inherited.Unjudged {
		s.Inherited.InPart = false // all objects were compared
	}
}

// Applying returns the status while objects are applied that the inventory lists for the first
// time. listed reports that an annotation has the inventory: the status leaves it out, as it costs the API server by its size.
func Applying(before v1alpha1.VidraResourceStatus, entries []v1alpha1.ManagedResourceStatus, listed bool, now time.Time) v1alpha1.VidraResourceStatus {
	after := *before.DeepCopy()
	if !listed {
		after.ManagedResources = withDetails(entries, before.Problems)
	}
	after.Objects = int32(len(entries)) //nolint:gosec // bounded by the size of a manifest
	after.DeployState = v1alpha1.DeployRunning
	const message = "Applying the manifest"
	setCondition(&after, v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonProgressing, message)
	if ready := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionReady); ready == nil || ready.Status == metav1.ConditionTrue {
		setCondition(&after, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonProgressing, message)
		problem := object.ProblemOf(nil, v1alpha1.ReasonProgressing, message, v1alpha1.ConditionReady)
		problem.Since = metav1.NewTime(now.Truncate(time.Second))
		var more int32
		after.Problems, more = bounded(append([]v1alpha1.Problem{problem}, after.Problems...))
		after.UnlistedProblems += more
	}
	noteFirstReady(&before, &after, now)
	return after
}

// maxCondition is how many bytes the message of a condition has at most. The API
// server refuses more than 32 KiB.
const maxCondition = 8192

// setCondition sets a condition of a status.
func setCondition(status *v1alpha1.VidraResourceStatus, kind string, value metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: kind, Status: value, Reason: reason, Message: display.Truncate(display.Line(message), maxCondition), ObservedGeneration: status.ObservedGeneration,
	})
}

// Summarize makes the status of a VidraResource from the status before and from the
// knowledge of a reconcile.
func Summarize(before v1alpha1.VidraResourceStatus, o Outcome) v1alpha1.VidraResourceStatus {
	after := *before.DeepCopy()
	if o.All && !o.objects.waits {
		after.ObservedGeneration = o.vr.Generation
	}
	if request := o.vr.ReconcileRequest(); o.All && request != "" {
		after.LastHandledReconcileAt = request
	}
	after.Objects = int32(len(o.objects.entries)) //nolint:gosec // bounded by the size of a manifest
	after.Shards, after.AppliedAs, after.Source = o.origin.Provenance.Shards, o.origin.Provenance.AppliedAs, o.origin.Provenance.Sources
	destination := o.origin.Destination
	if o.origin.Former.ClusterUID != "" { // the next process has to find out, too
		destination = o.origin.Former
	}
	after.KubeconfigDigest, after.ClusterUID = destination.Kubeconfig, destination.ClusterUID
	if o.Synced {
		after.LastSyncTime = &metav1.Time{Time: o.now}
	}
	problems := o.problems(before)
	after.Problems, after.UnlistedProblems = bounded(problems)
	after.ManagedResources = withDetails(o.objects.entries, after.Problems)
	if o.unread() { // nothing is known of those that were not listed
		after.UnlistedProblems += before.UnlistedProblems
	}
	// True while there are problems, and otherwise absent from the status.
	standing := func(kind string, holds bool, reason, message string) {
		if holds {
			setCondition(&after, kind, metav1.ConditionTrue, reason, message)
		} else {
			meta.RemoveStatusCondition(&after.Conditions, kind)
		}
	}
	// False while there are problems.
	fulfilled := func(kind, reason, message string) {
		switch wrong, why := describe(inCondition(problems, kind), after.ManagedResources); {
		case wrong == "":
			setCondition(&after, kind, metav1.ConditionTrue, reason, message)
		case kind == v1alpha1.ConditionHealthy && wrong == v1alpha1.ReasonStarting:
			setCondition(&after, kind, metav1.ConditionUnknown, wrong, why)
		default:
			setCondition(&after, kind, metav1.ConditionFalse, wrong, why)
		}
	}
	// The first one in a new status.
	fulfilled(v1alpha1.ConditionReady, v1alpha1.ReasonApplied, fmt.Sprintf("All objects are applied (%d)", len(o.objects.entries)))
	if !o.unread() { // otherwise nothing was watched
		if o.vr.WatchesEvents() {
			fulfilled(v1alpha1.ConditionWatching, v1alpha1.ReasonSynced, fmt.Sprintf("All kinds are watched (%d)", len(o.watching.Watches)))
		} else {
			setCondition(&after, v1alpha1.ConditionWatching, metav1.ConditionFalse, v1alpha1.ReasonEventsOff, "spec.destination.reconcileOnEvents is false")
		}
		meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionWatching).ObservedGeneration = o.vr.Generation // also while its manifest waits
		reason, message := describe(inCondition(problems, v1alpha1.ConditionUnmatchedIgnoreRules), nil)
		standing(v1alpha1.ConditionUnmatchedIgnoreRules, reason != "", reason, message)
		if o.Health != nil && !o.Health.AsBefore(before) {
			fulfilled(v1alpha1.ConditionHealthy, v1alpha1.ReasonHealthy, "All objects are healthy")
		}
		if o.objects.warnings != nil {
			reason, message := describe(o.objects.warnings, after.ManagedResources)
			standing(v1alpha1.ConditionWarnings, reason != "", reason, message)
		}
	}
	if !o.unread() || o.Obstacles.Compared {
		if reason, message := describe(inCondition(problems, v1alpha1.ConditionDrifted), after.ManagedResources); reason != "" {
			setCondition(&after, v1alpha1.ConditionDrifted, metav1.ConditionTrue, reason, message)
		} else if !o.objects.unjudged || o.unread() {
			setCondition(&after, v1alpha1.ConditionDrifted, metav1.ConditionFalse, v1alpha1.ReasonInSync, "")
		}
	}
	standing(v1alpha1.ConditionSuspended, o.vr.Spec.Suspend, v1alpha1.ReasonSuspended, "spec.suspend is true")
	ready := *meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionReady)
	// Reconciling and Stalled stand in the status only while they are true, as
	// kstatus wants it.
	standing(v1alpha1.ConditionStalled, o.Obstacles.Stalled != nil, ready.Reason, ready.Message)
	standing(v1alpha1.ConditionReconciling, o.Obstacles.Stalled == nil && ready.Status != metav1.ConditionTrue && !skipped(ready.Reason), ready.Reason, ready.Message)
	after.DeployState, after.LastError = deployState(ready), lastError(ready, problems, after.ManagedResources)
	noteFirstReady(&before, &after, o.now)
	return after
}

// lastError returns the message of the fault, for users of the first operator: the message of
// Ready, or of the worst problem that may still stand.
func lastError(ready metav1.Condition, all []v1alpha1.Problem, managed []v1alpha1.ManagedResourceStatus) string {
	switch {
	case ready.Status == metav1.ConditionTrue:
		return ""
	case !object.InProgress(ready.Reason):
		return ready.Message
	}
	_, message := describe(slices.DeleteFunc(slices.Clone(all), func(p v1alpha1.Problem) bool {
		return !p.Unconfirmed || !p.In(v1alpha1.ConditionReady) || p.Conditions[0] == v1alpha1.ConditionHealthy
	}), managed)
	return display.Truncate(message, maxCondition)
}

// skipped reports whether a reason means that Vidra leaves objects as they are.
func skipped(reason string) bool {
	return reason == v1alpha1.ReasonRevisionHeld || reason == v1alpha1.ReasonDriftDetected || reason == v1alpha1.ReasonSuspended || reason == v1alpha1.ReasonDeletionSuspended
}

// deployState translates the Ready condition for users of the first operator.
func deployState(ready metav1.Condition) v1alpha1.DeployState {
	switch {
	case ready.Status == metav1.ConditionTrue:
		return v1alpha1.DeploySucceeded
	case ready.Reason == v1alpha1.ReasonKindUnavailable, ready.Reason == v1alpha1.ReasonDependencyNotReady, ready.Reason == v1alpha1.ReasonSourceUnavailable:
		return v1alpha1.DeployPending
	case ready.Reason == v1alpha1.ReasonPruneFailed, ready.Reason == v1alpha1.ReasonDeletionBlocked, skipped(ready.Reason):
		return v1alpha1.DeployStale
	case slices.Contains([]string{v1alpha1.ReasonProgressing, v1alpha1.ReasonDeleting, v1alpha1.ReasonStarting}, ready.Reason):
		return v1alpha1.DeployRunning
	default:
		return v1alpha1.DeployFailed
	}
}

// wasReady reports whether a generation is ready according to a status.
func wasReady(status v1alpha1.VidraResourceStatus, generation int64) bool {
	return status.ObservedGeneration == generation && meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady)
}

// watchProblems returns the unwatched kinds. before reports whether
// all were watched.
func watchProblems(o *Outcome, before bool) []v1alpha1.Problem {
	var all []v1alpha1.Problem
	for name, status := range o.watching.FailingSources {
		if plan.Tolerable(status, before, o.now) {
			continue
		}
		message := fmt.Sprintf("Cannot watch the manifest in %s, which is read once in spec.interval meanwhile: %s: %s", name, status.Reason, status.Message)
		if status.Reason == watchregistry.ReasonForbidden {
			message += ". Grant the ServiceAccount of Vidra list and watch on it"
		}
		all = append(all, object.ProblemOf(nil, v1alpha1.ReasonWatchFailed, message, v1alpha1.ConditionWatching, v1alpha1.ConditionReady))
	}
	for key, status := range o.watching.Watches {
		if !o.vr.WatchesEvents() {
			break
		}
		kind := &v1alpha1.ProblemObject{APIVersion: key.GVR.GroupVersion().String(), Resource: key.GVR.Resource, Namespace: key.Namespace}
		reason, message := v1alpha1.ReasonWatchFailed, fmt.Sprintf("Cannot watch %s: %s: %s", key, status.Reason, status.Message)
		switch {
		case status.State == watchregistry.Synced, plan.Tolerable(status, before, o.now):
			continue
		case status.State == watchregistry.Starting:
			reason, message = v1alpha1.ReasonStarting, "Starting to watch "+key.String()
		}
		all = append(all, object.ProblemOf(kind, reason, message, v1alpha1.ConditionWatching, v1alpha1.ConditionReady))
	}
	slices.SortFunc(all, func(a, b v1alpha1.Problem) int { return strings.Compare(a.Message, b.Message) })
	return all
}
