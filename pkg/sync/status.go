package sync

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
)

// maxLastError bounds status.lastError, which is the message of Ready.
const maxLastError = 2048

// starting returns the status of an InfrahubSync during its first sync.
func starting(is *v1alpha1.InfrahubSync) v1alpha1.InfrahubSyncStatus {
	status := *is.Status.DeepCopy()
	status.SyncState = v1alpha1.SyncRunning
	setConditions(&status, is.Generation, v1alpha1.SyncReasonProgressing, "the first query is in progress", metav1.ConditionUnknown)
	return status
}

// conclude returns the status after a sync. It is pure.
func conclude(is *v1alpha1.InfrahubSync, r result, now time.Time) v1alpha1.InfrahubSyncStatus {
	status := *is.Status.DeepCopy()
	status.ObservedGeneration, status.LastHandledSyncAt = is.Generation, is.SyncRequest()
	if is.Spec.Suspend {
		if status.LastError = ""; status.SyncState == "" { // it was created so
			status.SyncState = v1alpha1.SyncPending
		} else if status.SyncState != v1alpha1.SyncPending {
			status.SyncState = v1alpha1.SyncStale
		}
		setConditions(&status, is.Generation, v1alpha1.SyncReasonSuspended, "spec.suspend is true: the VidraResources stay as they are", metav1.ConditionUnknown)
		return status
	}
	if r.answered {
		status.Artifacts = count(r.artifacts.listed)
	}
	if r.failure == nil {
		status.Applied = count(r.artifacts.applied)
		status.Checksums = slices.Compact(slices.Clone(r.artifacts.checksums))
		status.Checksums = status.Checksums[:min(len(status.Checksums), v1alpha1.MaxSyncChecksums)]
		status.Problems = r.artifacts.problems[:min(len(r.artifacts.problems), v1alpha1.MaxSyncProblems)]
		status.UnlistedProblems = count(len(r.artifacts.problems) - len(status.Problems))
		status.PendingRemovals = cmp.Or(r.removals.pending, r.removals.before)
		if r.revision != "" {
			status.PublishedRevision = r.revision
		}
	}
	reason, message, state := v1alpha1.SyncReasonSynced, synced(is, r), v1alpha1.SyncSucceeded
	switch {
	case r.failure != nil:
		reason, message, state = r.failure.Reason, r.failure.Message, v1alpha1.SyncFailed
	case len(r.artifacts.problems) > 0:
		reason, message, state = v1alpha1.SyncReasonArtifactsFailed, artifactsFailed(is, r), v1alpha1.SyncFailed
	case r.removals.pending != nil:
		reason, message, state = v1alpha1.SyncReasonConfirmationRequired, awaits(is, r), v1alpha1.SyncStale
	}
	if r.removals.pending != nil && reason == v1alpha1.SyncReasonArtifactsFailed {
		message += ". " + awaits(is, r)
	}
	message = display.Truncate(display.Line(message), maxLastError)
	status.SyncState, status.LastError = state, message
	ready := metav1.ConditionFalse
	if reason == v1alpha1.SyncReasonSynced {
		status.LastError, ready = "", metav1.ConditionTrue
	}
	setConditions(&status, is.Generation, reason, message, ready)
	changed := !equality.Semantic.DeepEqual(status, is.Status)
	if r.failure == nil && (changed || now.Sub(status.LastSyncTime.Time) >= statusAge) {
		status.LastSyncTime = metav1.NewTime(now.Truncate(time.Second))
	}
	return status
}

// count returns a number as the API has it.
func count(n int) int32 { return int32(min(max(n, 0), 1<<30)) } //nolint:gosec // it is bounded

func synced(is *v1alpha1.InfrahubSync, r result) string {
	if is.Spec.Publish != nil {
		return fmt.Sprintf("%s published in ExternalArtifact %s/%s", display.Plural(r.artifacts.applied, "artifact"), is.Spec.Publish.Namespace, is.ArtifactName())
	}
	return fmt.Sprintf("%s applied", display.Plural(r.artifacts.applied, "artifact"))
}

// artifactsFailed is the message about unapplied artifacts: the first of each reason.
func artifactsFailed(is *v1alpha1.InfrahubSync, r result) string {
	seen, messages := map[string]bool{}, []string{}
	for _, p := range r.artifacts.problems {
		if !seen[p.Reason] {
			seen[p.Reason] = true
			messages = append(messages, p.Reason+": "+display.Truncate(p.Message, 400))
		}
	}
	if is.Spec.Publish != nil {
		return fmt.Sprintf("%d of %s cannot be published, and the published ones stay as they are: %s", len(r.artifacts.problems), display.Plural(r.artifacts.listed, "artifact"), strings.Join(messages, "; "))
	}
	return fmt.Sprintf("%d of %s not applied, and their VidraResources stay as they are: %s", len(r.artifacts.problems), display.Plural(r.artifacts.listed, "artifact"), strings.Join(messages, "; "))
}

// awaits is the message about removals that wait.
func awaits(is *v1alpha1.InfrahubSync, r result) string {
	noun, verb := "VidraResource", "delete"
	if is.Spec.Publish != nil {
		noun, verb = "published file", "remove"
	}
	return fmt.Sprintf("the deletion of %s waits, because %s: %s. To %s them, run: kubectl annotate infrahubsync %s --overwrite %s=%s",
		display.Plural(int(r.removals.pending.Count), noun), r.removals.why, display.First(r.removals.pending.Names, maxNames, int(r.removals.pending.Count)), verb, is.Name, v1alpha1.ConfirmRemovalAnnotation, r.removals.pending.Confirmation)
}

// awaitsUser are the reasons that only a change of the InfrahubSync ends.
var awaitsUser = map[string]bool{v1alpha1.SyncReasonSpecInvalid: true, v1alpha1.SyncReasonConfirmationRequired: true}

// setConditions sets the conditions. Reconciling and Stalled are in the status while they are true, as kstatus has it.
func setConditions(status *v1alpha1.InfrahubSyncStatus, generation int64, reason, message string, ready metav1.ConditionStatus) {
	set := func(kind string, value metav1.ConditionStatus) {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{Type: kind, Status: value, Reason: reason, Message: message, ObservedGeneration: generation})
	}
	set(v1alpha1.ConditionReady, ready)
	for kind, present := range map[string]bool{ // at most one of them is true
		v1alpha1.ConditionStalled:     awaitsUser[reason],
		v1alpha1.ConditionReconciling: !awaitsUser[reason] && reason != v1alpha1.SyncReasonSynced && reason != v1alpha1.SyncReasonSuspended,
	} {
		if present {
			set(kind, metav1.ConditionTrue)
		} else {
			meta.RemoveStatusCondition(&status.Conditions, kind)
		}
	}
}

// writeStatus writes a status if it differs.
func (r *Reconciler) writeStatus(ctx context.Context, is *v1alpha1.InfrahubSync, status v1alpha1.InfrahubSyncStatus) error {
	if equality.Semantic.DeepEqual(status, is.Status) {
		return nil
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": is.UID}, // one that was created again does not get the status
		{"op": "add", "path": "/status", "value": status},
	})
	if err != nil {
		return err
	}
	changed := &v1alpha1.InfrahubSync{ObjectMeta: metav1.ObjectMeta{Name: is.Name}}
	if err := r.Client.Status().Patch(ctx, changed, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(FieldManager)); err != nil {
		return fmt.Errorf("write the status of InfrahubSync %s: %w", is.Name, err)
	}
	is.Status = changed.Status
	return nil
}
