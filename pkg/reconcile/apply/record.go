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
	"github.com/vidra-operator/vidra/pkg/reconcile/policy"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Requests returns the number of writes of a heal: a first one reclaims the fields that an edit added, before the apply removes them.
func (r *Result) Requests() int {
	if len(r.Added.Changes) > 0 {
		return 2
	}
	return 1
}

// Heal returns the revert of fields for the metrics.
func (r *Result) Heal(action events.Action, fields []ownership.Change) metrics.Heal {
	return metrics.Heal{ID: r.Task.Object.ID, Action: action, Fields: fields, Structural: len(r.Added.Changes) > 0, Since: r.Task.Cause.Since, Answered: r.Answered}
}

// Result is the result of a task.
type Result struct {
	Task plan.Task
	Err  error
	// Shown is the decision about values of the object, as it was before and during the task.
	Shown ownership.Disclosure
	// Sensitive reports that the object in Live counts as sensitive until its manifest changes.
	Sensitive ownership.Sensitivity
	// Unmet reports that the creation failed, and that an object may exist:
	// ApplyUnmet ends the task. Unread reports that the read of it is refused, too.
	Unmet, Unread bool
	// Began is when the first request was sent, and Answered when the last one was answered.
	Began, Answered time.Time
	// Live is the object as the API server has it now; nil if it was not applied.
	Live *unstructured.Unstructured
	// Aggregated reports that an extension API server serves the kind; nil if the server is unknown.
	Aggregated *bool
	// digest of our fields in live, and of the additions that count.
	digest ownership.Digest
	// Kept are fields that the manifest dropped and that stay, because other field managers own them.
	Kept []plan.KeptFields
	// Others are the paths that other field managers own in Live.
	Others ownership.Paths
	// Compared reports that Additions is known: additions of users to the object that stay.
	Compared  bool
	Additions []ownership.Change
	// Added is the removed part of the additions of an edit or of users. Unremovable describes additions of
	// users that have to stay, with the reason.
	Added       ownership.Addition
	Unremovable string
	// Action and Fields are the change of the object; the action is empty if it is unchanged. Reverted are the changes of
	// another writer that the new configuration of the manifest has reverted.
	Action   events.Action
	Fields   []ownership.Change
	Reverted []ownership.Change
	// Decision is the decision about a change of the object. Unknown is the reason of
	// unknown differences then.
	Decision policy.Decision
	Unknown  string
	// AsSkipped reports an object in the state of its last skip.
	AsSkipped bool
	// Glass is the answer to its break-glass annotations.
	Glass breakglass.Answer
	// Completed reports that the object has ended, and that its controller has removed it.
	Completed bool
	// Ending reports that the object is being deleted.
	Ending bool
	// Replaced is the reason for its deletion and new creation, or empty. Replace is
	// the object that is still to be deleted then.
	Replaced string
	Replace  *unstructured.Unstructured
	// Warnings are warnings of the API server about the object, and fields that a webhook changed.
	Warnings []string
}

// begin notifies the index before the first request: it defers the events of the object
// until record. It reports whether there is such a request.
func (a *Applier) begin(p *procedure) bool {
	end := p.outcome.end
	begins := a.Settings.Watched && end != asIntended && end != beingDeleted && end != completed && (end != observed || p.known.task.Cause.Found != nil)
	if begins {
		a.Index.Begin(a.Settings.Claimant.Owner, p.known.task.Object.Key, a.Settings.Claimant.Manager)
	}
	return begins
}

// record notifies the index of the end of a task, and returns the result.
func (a *Applier) record(p *procedure, warnings []string) Result {
	got := p.outcome
	done := Result{
		Task: p.known.task, Err: got.err, Glass: p.known.glass, Added: got.added, Unremovable: got.unremovable,
		Shown: p.known.disclosureWith(append(p.versions, got.live)...),
	}
	done.Warnings = withheld(got.live, warnings, done.Shown)
	switch got.end {
	case asIntended:
		done.AsSkipped = p.known.expected.Unreverted
	case beingDeleted:
		byUs := p.known.task.Why == plan.WhyNew || p.known.task.Entry() != nil && p.known.task.Entry().State == v1alpha1.ObjectDeleting
		if done.Ending = true; byUs && a.Settings.Watched {
			a.Index.ExpectRemoval(a.Settings.Claimant.Owner, p.known.task.Object.Key) // its end is no drift
		}
	case completed:
		done.Completed = true
	case observed:
		done.Decision, done.Fields, done.Unknown = p.known.task.Decision, got.fields, got.unknown
		if found := p.known.task.Cause.Found; a.Settings.Watched && found != nil {
			a.Trigger.Observed(a.Settings.Claimant.Owner, p.known.task.Object.Key, a.seen(found, !p.known.task.Decision.Silent))
		}
	case unchanged:
		found := p.known.task.Cause.Found
		if a.Settings.Watched {
			expectation := a.expectation(found)
			expectation.Sensitive = expectation.Sensitive || p.known.wasSensitive
			a.Trigger.Commit(a.Settings.Claimant.Owner, p.known.task.Object.Key, expectation)
		}
		done.Compared, done.Additions = true, p.known.byTools(found).Changes
	case applied:
		done.Live = got.live
		expectation := a.expectation(got.live)
		if a.Settings.Additions.Policy == v1alpha1.AdditionsWarn {
			done.Additions = p.known.byTools(got.live).Changes
		}
		// Values stay hidden if a user removes the annotation; an author who changes the manifest has them shown.
		if kept := len(done.Additions) > 0; !p.reconfigured() || kept {
			expectation.Sensitive = expectation.Sensitive || p.known.wasSensitive
		}
		done.Sensitive = expectation.Sensitive
		if done.digest, done.Others = expectation.Digest, expectation.Others; a.Settings.Watched {
			expectation.Raced = p.raced(expectation.Others)
			a.Trigger.Commit(a.Settings.Claimant.Owner, p.known.task.Object.Key, expectation)
			if judged, known := a.Index.Expected(a.Settings.Claimant.Owner, p.known.task.Object.Key); known { // an edit during the apply is still to be judged
				done.Sensitive = judged.Sensitive
			}
		}
		if !p.known.glass.Seen {
			done.Glass = a.Settings.AnswerTo(p.known.task.Entry(), p.known.task.Object, got.live)
		}
		done.describe(a.Settings.Claimant.Manager, p.known.expected, p.known.expectedKnown)
		if done.Action == events.Relabelled && len(a.Settings.Claimant.ShardLabels) > 0 && p.known.task.Cause.Found != nil && object.Labelled(p.known.task.Cause.Found) { // it had lost the label of a shard
			done.Action = events.Restored
			if len(done.Fields) == 0 {
				done.Action = ""
			}
		}
		if p.known.task.Why == plan.WhyChanged && p.known.task.Cause.Found != nil {
			done.Kept = keptFields(ownership.Kept(p.known.task.Cause.Found, got.live, a.Settings.Claimant.Manager, v1alpha1.FieldManagerPrefix, done.Shown))
		}
		done.Compared = true
		if len(done.Fields) == 0 && len(done.Reverted) == 0 {
			done.Reverted = done.Added.Changes
		}
		done.Ending = p.known.task.Why != plan.WhyDrift && got.live.GetDeletionTimestamp() != nil
		if p.known.task.Object.Ignored == nil { // otherwise not all of it was sent
			if differences := desired.Differences(p.known.task.Object.Unstructured(), got.live); len(differences) > 0 && got.altered != "" {
				done.Warnings = append(done.Warnings, desired.Altered(differences, got.altered, p.known.task.Object.Unstructured(), got.live, done.Shown)...)
			}
		}
	case replaced, failed:
		if a.Settings.Watched {
			a.Trigger.Abort(a.Settings.Claimant.Owner, p.known.task.Object.Key)
		}
		if got.end == replaced {
			done.Ending, done.Replaced, done.Replace = true, object.Message(got.refused, done.Shown), got.replace
		}
	case undecided:
	}
	return done
}

// reconfigured reports that the manifest has another configuration of the object than the last apply; false if
// the last one is unknown.
func (p *procedure) reconfigured() bool {
	entry := p.known.task.Entry()
	return entry != nil && entry.Configuration != "" && entry.Configuration != p.known.task.Object.Configuration
}

// expectation is the expected state of an object that equals the manifest.
func (a *Applier) expectation(live *unstructured.Unstructured) trigger.Applied {
	expected := a.seen(live, false)
	expected.Others = ownership.Others(live, v1alpha1.FieldManagerPrefix)
	return expected
}

// seen is the expected state of an object that stays as it is; unreverted reports a difference from the manifest.
func (a *Applier) seen(live *unstructured.Unstructured, unreverted bool) trigger.Applied {
	return trigger.Applied{
		Manager: a.Settings.Claimant.Manager, Digest: trigger.DigestOf(live, a.Settings.Claimant.Manager, unreverted, a.Settings.Additions.Tools), Unreverted: unreverted,
		UID: live.GetUID(), ResourceVersion: live.GetResourceVersion(), Sensitive: ownership.Sensitivity(ownership.Annotated(live)),
	}
}

// withheld returns the warnings of the API server about an object, without sensitive values. A warning about a
// sensitive object may quote a value.
func withheld(live *unstructured.Unstructured, warnings []string, known ownership.Disclosure) []string {
	if len(warnings) > 0 && (live == nil || known.Withholds()) {
		return []string{"the API server warns of it; the warning is withheld because it may quote a value"}
	}
	shown := make([]string, len(warnings))
	for i, warning := range warnings {
		shown[i] = known.Redact(warning)
	}
	return shown
}

// maxKept is the number of fields in a warning about fields of other owners.
const maxKept = 5

// keptFields groups dropped fields of the manifest that stay by their owners, with advice.
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
