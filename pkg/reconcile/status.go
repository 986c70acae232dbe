package reconcile

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// outcome is what a pass knows at its end.
type outcome struct {
	generation int64
	// stalled is why nothing was done, and its reason.
	stalled *failure
	// compared reports that the objects were compared nevertheless.
	compared bool
	// blocked is why nothing can be done at present.
	blocked *failure
	// source is why parts of the manifest cannot be read, while those that were read
	// before are kept.
	source *failure
	// unobserved is what no watch has seen yet as it was applied; empty if there is nothing.
	unobserved string
	// wait reports that Ready waits for health, which is what is known of it.
	wait   bool
	health *healthReport
	// warnings are what the API server said besides; nil if nothing is known of it.
	warnings []string
	// deleting reports that the VidraResource is going.
	deleting bool
	// all reports that every object was considered.
	all bool
	// entries is the inventory, in order.
	entries []v1alpha1.ManagedResourceStatus
	// failures and order say which objects are not as they should be.
	failures map[identity]failure
	order    []identity
	// additions are the objects with additions of people that are not reverted.
	additions map[identity]failure
	// unjudged reports that additions may be missing here that the status names, because no
	// watch has shown their objects since this process began.
	unjudged bool
	// drifted are the objects that are known to have been changed and not put
	// back.
	drifted []identity
	// contended are the objects that another writer keeps changing.
	contended map[identity]failure
	// unmatched are the ignore rules that match nothing.
	unmatched []string
	// suspended reports that no object is written; waits, that something would be.
	suspended, waits bool
	// watched reports whether events are wanted; watches are the states.
	watched bool
	watches map[watchregistry.Key]watchregistry.Status
	// synced reports that this pass applied what was left of the manifest.
	synced bool
	now    time.Time
}

// watchGrace is how long a watch that was healthy may be out of order before it
// counts as failed: a restart of Vidra or of the API server is no reason to write
// every status twice.
const watchGrace = 30 * time.Second

// maxCondition is how many bytes the message of a condition has at most. The API
// server refuses more than 32 KiB.
const maxCondition = 8192

// summarize makes the status of a VidraResource from what it was and from what
// a pass knows.
func summarize(before v1alpha1.VidraResourceStatus, o outcome) v1alpha1.VidraResourceStatus {
	after := *before.DeepCopy()
	if o.all && !o.waits {
		after.ObservedGeneration = o.generation
	}
	after.ManagedResources = o.entries
	after.Objects = int32(len(o.entries)) //nolint:gosec // bounded by the size of a manifest
	if o.synced {
		after.LastSyncTime = &metav1.Time{Time: o.now}
	}
	watching := watchingCondition(o, watched(before, o.generation))
	var healthy *metav1.Condition
	if o.health != nil {
		healthy = ptr.To(healthyCondition(o.health, healthOf(before)))
	}
	ready := readyCondition(o, watching, healthy, before)
	ready.Message = display.Truncate(ready.Message, maxCondition)
	set := func(c metav1.Condition) {
		c.Message = display.Truncate(c.Message, maxCondition)
		c.ObservedGeneration = after.ObservedGeneration
		meta.SetStatusCondition(&after.Conditions, c)
	}
	standing := func(kind string, holds bool, reason, message string) {
		if holds {
			set(metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message})
		} else {
			meta.RemoveStatusCondition(&after.Conditions, kind)
		}
	}
	if o.stalled == nil && o.blocked == nil { // otherwise nothing was watched or compared
		set(watching)
		if drifted := driftedCondition(o); drifted.Status == metav1.ConditionTrue || !o.unjudged {
			set(drifted)
		}
		standing(v1alpha1.ConditionUnmatchedIgnoreRules, len(o.unmatched) > 0, v1alpha1.ReasonNothingMatches,
			"Nothing in the manifest is matched by "+few(o.unmatched, maxList))
		if healthy != nil {
			set(*healthy)
		}
		if o.warnings != nil {
			standing(v1alpha1.ConditionWarnings, len(o.warnings) > 0, v1alpha1.ReasonWarned, few(o.warnings, maxList))
		}
	} else if o.compared {
		set(driftedCondition(o))
	}
	standing(v1alpha1.ConditionSuspended, o.suspended, v1alpha1.ReasonSuspended, "spec.suspend is true")
	set(ready)
	// Reconciling and Stalled stand in the status only while they are true, as
	// kstatus wants it.
	standing(v1alpha1.ConditionStalled, o.stalled != nil, ready.Reason, ready.Message)
	standing(v1alpha1.ConditionReconciling, o.stalled == nil && ready.Status != metav1.ConditionTrue && !skipped(ready.Reason), ready.Reason, ready.Message)
	after.DeployState = deployState(ready)
	after.LastError = events.LastError(before, after)
	return after
}

// skipped reports whether a reason means that Vidra leaves things as they are.
func skipped(reason string) bool {
	return reason == v1alpha1.ReasonDriftDetected || reason == v1alpha1.ReasonSuspended || reason == v1alpha1.ReasonDeletionSuspended
}

// deployState translates the Ready condition for users of the first operator.
func deployState(ready metav1.Condition) v1alpha1.DeployState {
	switch {
	case ready.Status == metav1.ConditionTrue:
		return v1alpha1.DeploySucceeded
	case ready.Reason == v1alpha1.ReasonKindUnavailable, ready.Reason == v1alpha1.ReasonSourceUnavailable:
		return v1alpha1.DeployPending
	case ready.Reason == v1alpha1.ReasonPruneFailed, skipped(ready.Reason):
		return v1alpha1.DeployStale
	case slices.Contains([]string{v1alpha1.ReasonProgressing, v1alpha1.ReasonDeleting, v1alpha1.ReasonStarting}, ready.Reason):
		return v1alpha1.DeployRunning
	default:
		return v1alpha1.DeployFailed
	}
}

func readyCondition(o outcome, watching metav1.Condition, healthy *metav1.Condition, before v1alpha1.VidraResourceStatus) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse}
	reason, message := worst(o.failures, o.order)
	switch {
	case o.stalled != nil:
		c.Reason, c.Message = o.stalled.reason, o.stalled.message
	case o.blocked != nil:
		c.Reason, c.Message = o.blocked.reason, o.blocked.message
	case o.source != nil:
		c.Reason, c.Message = o.source.reason, o.source.message+". What was read before is kept as it is"
	case o.deleting && reason == "":
		c.Reason = v1alpha1.ReasonDeleting
		c.Message = "Waiting until the last object is gone"
	case reason != "":
		c.Reason, c.Message = reason, message
	case watching.Status == metav1.ConditionFalse && watching.Reason != v1alpha1.ReasonEventsOff:
		c.Reason, c.Message = watching.Reason, watching.Message
	case o.unobserved != "" && !wasReady(before, o.generation): // what was seen once is not doubted for a cut stream
		c.Reason, c.Message = v1alpha1.ReasonProgressing, o.unobserved
	case o.wait && healthy != nil && healthy.Status != metav1.ConditionTrue:
		c.Reason, c.Message = healthy.Reason, healthy.Message
	default:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonApplied
		c.Message = fmt.Sprintf("All objects are applied (%d)", len(o.entries))
	}
	return c
}

// wasReady reports whether a generation is ready according to a status.
func wasReady(status v1alpha1.VidraResourceStatus, generation int64) bool {
	return status.ObservedGeneration == generation && meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady)
}

// watched reports whether everything that a generation needs is watched according to a
// status.
func watched(status v1alpha1.VidraResourceStatus, generation int64) bool {
	return status.ObservedGeneration == generation && meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionWatching)
}

func watchingCondition(o outcome, before bool) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionWatching, Status: metav1.ConditionFalse}
	if !o.watched {
		c.Reason, c.Message = v1alpha1.ReasonEventsOff, "spec.destination.reconcileOnEvents is false"
		return c
	}
	var failed, starting []string
	for key, status := range o.watches {
		switch {
		case status.State == watchregistry.Synced, tolerable(status, before, o.now):
		case status.State == watchregistry.Starting:
			starting = append(starting, key.String())
		default:
			failed = append(failed, fmt.Sprintf("%s: %s: %s", key, status.Reason, display.Truncate(status.Message, maxMessage)))
		}
	}
	slices.Sort(failed)
	slices.Sort(starting)
	switch {
	case len(failed) > 0:
		c.Reason, c.Message = v1alpha1.ReasonWatchFailed, events.CannotWatch+few(failed, maxList)
	case len(starting) > 0:
		c.Reason, c.Message = v1alpha1.ReasonStarting, "Starting to watch "+few(starting, maxList)
	default:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonSynced
		c.Message = fmt.Sprintf("All kinds are watched (%d)", len(o.watches))
	}
	return c
}

// tolerable reports whether a watch that is out of order is expected to be back
// before it has to be reported. before is whether the status reported that all was watched. A
// watch starts then because Vidra does, and an API server that starts
// refuses connections first, and then requests until it has read its roles.
func tolerable(status watchregistry.Status, before bool, now time.Time) bool {
	return before && (status.State == watchregistry.Starting || status.State == watchregistry.Degraded) &&
		now.Sub(status.Since) < watchGrace
}

func driftedCondition(o outcome) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionDrifted, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonInSync}
	known := map[identity]failure{}
	for _, id := range o.drifted {
		known[id] = failure{v1alpha1.ReasonDriftDetected, "changed and not reverted yet"}
	}
	maps.Copy(known, o.contended)
	for id, why := range o.failures {
		if why.reason == v1alpha1.ReasonDriftDetected || why.reason == v1alpha1.ReasonDriftContended {
			known[id] = why
		}
	}
	for id, why := range o.additions {
		if _, worse := known[id]; !worse {
			known[id] = why
		}
	}
	if len(known) > 0 {
		c.Status = metav1.ConditionTrue
		c.Reason, c.Message = worst(known, o.order)
	}
	return c
}
