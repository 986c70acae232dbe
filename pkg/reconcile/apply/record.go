package apply

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/breakglass"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/metrics"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Requests returns how many writes a heal took: the fields that an edit added are applied before the
// apply removes it.
func (r *Result) Requests() int {
	if len(r.Added.Changes) > 0 {
		return 2
	}
	return 1
}

// Heal returns what the metrics count of a revert of fields.
func (r *Result) Heal(action events.Action, fields []ownership.Change) metrics.Heal {
	return metrics.Heal{ID: r.ID, Action: action, Fields: fields, Structural: len(r.Added.Changes) > 0, Since: r.Cause.Since, Answered: r.Answered}
}

// Result is what came of a task.
type Result struct {
	plan.Task
	Err error
	// Shown is the decision about values of the object, as it was before and during the task.
	Shown ownership.Disclosure
	// Sensitive reports that the object in Live counts as sensitive until its manifest changes.
	Sensitive ownership.Sensitivity
	// Unmet reports that the object could not be created, and that it is not known whether it exists:
	// ApplyUnmet ends the task. Unread reports that it may not be read either.
	Unmet, Unread bool
	// Answered is when the last request was answered.
	Answered time.Time
	// Live is the object as the API server has it now; nil if it was not applied.
	Live *unstructured.Unstructured
	// Aggregated reports that an extension API server serves the kind; nil if that is not known.
	Aggregated *bool
	// digest of what is ours in live, and of what is counted with it.
	digest ownership.Digest
	// Kept are fields that the manifest dropped and that stay, because other field managers own them.
	Kept []plan.KeptFields
	// Others are the paths that other field managers own in Live.
	Others ownership.Paths
	// Compared reports that Additions is known: what users added to the object and what is not reverted.
	Compared  bool
	Additions []ownership.Change
	// Added is what an edit added, or users, and what was removed. Unremovable describes what
	// users added and what cannot be removed, and why.
	Added       ownership.Addition
	Unremovable string
	// Action and Fields are what was done; no action if nothing was. Reverted is what
	// another writer had changed and the new configuration of the manifest has reverted.
	Action   events.Action
	Fields   []ownership.Change
	Reverted []ownership.Change
	// Skipped is why the object was not reverted; nil if it was. Unknown is why what differs
	// is not known then.
	Skipped *plan.SkipReason
	Unknown string
	// AsSkipped reports that the object is as it was when it was last skipped.
	AsSkipped bool
	// Glass is the answer to its break-glass annotations.
	Glass breakglass.Answer
	// Completed reports that the object has ended, and that its controller has removed it.
	Completed bool
	// Ending reports that the object is being deleted.
	Ending bool
	// Replaced is why it is deleted to be created again; empty if it is not. Replace is
	// the object that is still to be deleted then.
	Replaced string
	Replace  *unstructured.Unstructured
	// Warnings are those of the API server about the object, and fields that a webhook changed.
	Warnings []string
}

// begin notifies the index before the first request: it defers the events of the object
// until record.
func (a *Applier) begin(r request) {
	if a.Watched && r.kind != asIntended && r.kind != beingDeleted && r.kind != completed && (r.kind != observed || r.Cause.Found != nil) {
		a.Index.Begin(a.Owner, r.Key, a.Manager)
	}
}

// record notifies the index of how a task ended, and returns the result.
func (a *Applier) record(r request, warnings []string) Result {
	done := Result{
		Task: r.Task, Err: r.err, Glass: r.glass, Added: r.added, Unremovable: r.unremovable,
		Shown: r.disclosureWith(r.live, r.found, r.previous),
	}
	done.Warnings = withheld(r, warnings, done.Shown)
	switch r.kind {
	case asIntended:
		done.AsSkipped = r.expected.Unreverted
	case beingDeleted:
		if done.Ending = true; r.Why == plan.WhyNew && a.Watched {
			a.Index.ExpectRemoval(a.Owner, r.Key) // its end is no drift
		}
	case completed:
		done.Completed = true
	case observed:
		done.Skipped, done.Fields, done.Unknown = r.Skip, r.fields, r.unknown
		if found := r.Cause.Found; a.Watched && found != nil {
			a.Trigger.Observed(a.Owner, r.Key, a.seen(found, !r.Skip.Silent))
		}
	case unchanged:
		found := r.Cause.Found
		if a.Watched {
			expectation := a.expectation(found)
			expectation.Sensitive = expectation.Sensitive || r.wasSensitive
			a.Trigger.Commit(a.Owner, r.Key, expectation)
		}
		done.Compared, done.Additions = true, r.byTools(found).Changes
	case applied:
		done.Live = r.live
		expectation := a.expectation(r.live)
		if a.Additions.Policy == v1alpha1.AdditionsWarn {
			done.Additions = r.byTools(r.live).Changes
		}
		// A user who removes the annotation does not have values shown; an author who changes the manifest does.
		if kept := len(done.Additions) > 0; !r.reconfigured() || kept {
			expectation.Sensitive = expectation.Sensitive || r.wasSensitive
		}
		done.Sensitive = expectation.Sensitive
		if done.digest, done.Others = expectation.Digest, expectation.Others; a.Watched {
			expectation.Raced = r.raced(expectation.Others)
			a.Trigger.Commit(a.Owner, r.Key, expectation)
			if judged, known := a.Index.Expected(a.Owner, r.Key); known { // an edit during the apply is still to be judged
				done.Sensitive = judged.Sensitive
			}
		}
		if !r.glass.Seen {
			done.Glass = a.AnswerTo(r.Entry(), r.Object, r.live)
		}
		done.describe(a.Manager, r.expected, r.expectedKnown)
		if done.Action == events.Relabelled && len(a.ShardLabels) > 0 && r.Cause.Found != nil && object.Labelled(r.Cause.Found) { // it had lost the label of a shard
			done.Action = events.Restored
			if len(done.Fields) == 0 {
				done.Action = ""
			}
		}
		if r.Why == plan.WhyChanged && r.Cause.Found != nil {
			done.Kept = keptFields(ownership.Kept(r.Cause.Found, r.live, a.Manager, v1alpha1.FieldManagerPrefix, done.Shown))
		}
		done.Compared = true
		if len(done.Fields) == 0 && len(done.Reverted) == 0 {
			done.Reverted = done.Added.Changes
		}
		done.Ending = r.Why != plan.WhyDrift && r.live.GetDeletionTimestamp() != nil
		if r.Ignored == nil { // otherwise not all of it was sent
			if differences := desired.Differences(r.Unstructured(), r.live); len(differences) > 0 && r.altered != "" {
				done.Warnings = append(done.Warnings, desired.Altered(differences, r.altered, r.Unstructured(), r.live, done.Shown)...)
			}
		}
	case replaced, failed:
		if a.Watched {
			a.Trigger.Abort(a.Owner, r.Key)
		}
		if r.kind == replaced {
			done.Ending, done.Replaced, done.Replace = true, object.Message(r.refused, done.Shown), r.replace
		}
	case observe, create, reclaim, releaseIgnored, apply, replaceLists, askOwners, claim, recheck, read, readUnowned, tryWithoutUnowned, returnReclaimed, applyMarks,
		migrate, convert, dropStale, probe, readReplaced, confirm: // these are requests
	}
	return done
}

// reconfigured reports that the manifest has another configuration of the object than the one that was applied last; false if
// that one is not known.
func (r request) reconfigured() bool {
	entry := r.Entry()
	return entry != nil && entry.Configuration != "" && entry.Configuration != r.Configuration
}

// expectation is what is expected of an object that is as the manifest says.
func (a *Applier) expectation(live *unstructured.Unstructured) trigger.Applied {
	expected := a.seen(live, false)
	expected.Others = ownership.Others(live, v1alpha1.FieldManagerPrefix)
	return expected
}

// seen is what is expected of an object that is not changed; unreverted reports that the object
// differs from the manifest.
func (a *Applier) seen(live *unstructured.Unstructured, unreverted bool) trigger.Applied {
	return trigger.Applied{
		Manager: a.Manager, Digest: trigger.DigestOf(live, a.Manager, unreverted, a.Additions.Tools), Unreverted: unreverted,
		UID: live.GetUID(), ResourceVersion: live.GetResourceVersion(), Sensitive: ownership.Sensitivity(ownership.Annotated(live)),
	}
}

// withheld returns the warnings of the API server about an object, without the values that are never shown. Those about a
// sensitive object may quote a value.
func withheld(r request, warnings []string, known ownership.Disclosure) []string {
	if len(warnings) > 0 && (r.live == nil || known.Withholds()) {
		return []string{"the API server warns of it; the warning is withheld because it may quote a value"}
	}
	shown := make([]string, len(warnings))
	for i, warning := range warnings {
		shown[i] = known.Redact(warning)
	}
	return shown
}

// maxKept is the number of fields that warnings about fields of other owners name.
const maxKept = 5

// keptFields groups the fields that the manifest dropped and that stay by their owners, and says what to do.
func keptFields(kept []ownership.KeptField) (groups []plan.KeptFields) {
	managers := map[string][]ownership.KeptField{}
	for _, field := range kept {
		managers[field.Manager] = append(managers[field.Manager], field)
	}
	for _, manager := range slices.Sorted(maps.Keys(managers)) {
		fields := managers[manager]
		var paths []string
		for _, field := range fields[:min(len(fields), maxKept)] {
			paths = append(paths, field.Path)
		}
		text := strings.Join(paths, ", ")
		if more := len(fields) - maxKept; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		groups = append(groups, plan.KeptFields{Paths: ownership.KeptPaths(fields), Text: fmt.Sprintf(
			"the manifest dropped %s, and the field manager %q keeps it: remove it there, or from the object", text, manager)})
	}
	return groups
}
