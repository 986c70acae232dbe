package apply

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/breakglass"
	"github.com/vidra-operator/vidra/pkg/reconcile/metrics"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Result is the result of a task.
type Result struct {
	Task plan.Task
	End  End
	Err  error
	// Shown is the decision about values of the object, as it was before and during the task.
	Shown ownership.Disclosure
	// Began is when the first request was sent, and Answered when the last one was answered.
	Began, Answered time.Time
	// Glass is the answer to the break-glass annotations of the object.
	Glass breakglass.Answer
	// Change is the change of the object.
	Change Change
	// Applied is the object after its apply.
	Applied AppliedObject
	// Additions are additions of users to the object that stay.
	Additions RemainingAdditions
	// Recreation is its deletion and new creation.
	Recreation Recreation
}

// Change is the change of an object by a task.
type Change struct {
	// Action is empty if the object is unchanged. Fields are its changes, or the differences of one that stays as it is, and Unknown is the reason
	// of unknown differences.
	Action  events.Action
	Fields  []ownership.Change
	Unknown string
	// Reverted are the changes of another writer that the new configuration of the manifest has reverted.
	Reverted []ownership.Change
	// Added is the removed part of the additions of an edit or of users.
	Added ownership.Addition
}

// AppliedObject is an object after its apply.
type AppliedObject struct {
	// Live is the object as the API server has it now; nil if it was not applied.
	Live *unstructured.Unstructured
	// State is the state that the index expects, with the paths of other field managers. State.Sensitive lasts until the manifest changes.
	State trigger.Applied
	// Aggregated reports that an extension API server serves the kind; nil if the server is unknown.
	Aggregated *bool
	// Kept are fields that the manifest dropped and that stay, because other field managers own them.
	Kept []plan.KeptFields
	// Warnings are warnings of the API server about the object, and Altered are the fields that it stored with another value.
	Warnings []string
	Altered  plan.Altered
}

// RemainingAdditions are additions of users to an object that stay.
type RemainingAdditions struct {
	// Compared reports that they are known.
	Compared bool
	Changes  []ownership.Change
	// Unremovable describes additions that have to stay, with the reason.
	Unremovable string
}

// Recreation is the deletion of an object, to be created anew.
type Recreation struct {
	Reason string
	// Delete is the object that is still to be deleted; nil if it is being deleted.
	Delete *unstructured.Unstructured
}

// Ending reports whether the object is being deleted, or is to be.
func (r *Result) Ending() bool {
	return r.End == BeingDeleted || r.End == Replaced || r.Task.Why != plan.WhyDrift && r.Applied.Live != nil && r.Applied.Live.GetDeletionTimestamp() != nil
}

// Requests returns the number of writes of a heal: a first one reclaims the fields that an edit added, before the apply removes them.
func (c *Change) Requests() int {
	if len(c.Added.Changes) > 0 {
		return 2
	}
	return 1
}

// Heal returns the revert of fields for the metrics.
func (r *Result) Heal(action events.Action, fields []ownership.Change) metrics.Heal {
	return metrics.Heal{ID: r.Task.Object.ID, Action: action, Fields: fields, Structural: r.Change.Requests() > 1, Since: r.Task.Cause.Since, Answered: r.Answered}
}

// begin notifies the index before the first request: it defers the events of the object
// until record. It reports whether there is such a request.
func (a *Applier) begin(p *procedure) bool {
	end := p.result.End
	begins := a.Settings.Watched && end != AsIntended && end != BeingDeleted && end != Completed && (end != Observed || p.known.task.Cause.Found != nil)
	if begins {
		a.Index.Begin(a.Settings.Claimant.Owner, p.known.task.Object.Key, a.Settings.Claimant.Manager)
	}
	return begins
}

// record notifies the index of the end of a task, and returns the result.
func (a *Applier) record(p *procedure, warnings []string) Result {
	done := p.result
	done.Task, done.Glass, done.Shown = p.known.task, p.known.glass, p.known.disclosureWith(append(p.versions, done.Applied.Live)...)
	live := done.Applied.Live
	switch done.End {
	case AsIntended:
		if p.known.expected.Unreverted {
			done.End = AsSkipped
		}
	case BeingDeleted:
		byUs := p.known.task.Why == plan.WhyNew || p.known.task.Known.DeletedByVidra()
		if byUs && a.Settings.Watched {
			a.Index.ExpectRemoval(a.Settings.Claimant.Owner, p.known.task.Object.Key) // its end is no drift
		}
	case Observed:
		if found := p.known.task.Cause.Found; a.Settings.Watched && found != nil {
			a.Trigger.Observed(a.Settings.Claimant.Owner, p.known.task.Object.Key, a.seen(found, !p.known.task.Decision.Silent))
		}
	case Unchanged:
		found := p.known.task.Cause.Found
		if a.Settings.Watched {
			expectation := a.expectation(found)
			expectation.Sensitive = expectation.Sensitive || p.known.wasSensitive
			a.Trigger.Commit(a.Settings.Claimant.Owner, p.known.task.Object.Key, expectation)
		}
		done.Additions = RemainingAdditions{Compared: true, Changes: p.known.byTools(found).Changes}
	case Applied:
		done.Applied.State, done.Applied.Warnings = a.expectation(live), withheld(live, warnings, done.Shown)
		state := &done.Applied.State
		done.Additions.Compared = true
		if a.Settings.Additions.Policy == v1alpha1.AdditionsWarn {
			done.Additions.Changes = p.known.byTools(live).Changes
		}
		// Values stay hidden if a user removes the annotation; an author who changes the manifest has them shown.
		if !p.reconfigured() || len(done.Additions.Changes) > 0 {
			state.Sensitive = state.Sensitive || p.known.wasSensitive
		}
		if a.Settings.Watched {
			state.Raced = p.raced(state.Others)
			a.Trigger.Commit(a.Settings.Claimant.Owner, p.known.task.Object.Key, *state)
			if judged, known := a.Index.Expected(a.Settings.Claimant.Owner, p.known.task.Object.Key); known { // an edit during the apply is still to be judged
				state.Sensitive = judged.Sensitive
			}
		}
		if !p.known.glass.Seen {
			done.Glass = a.Settings.AnswerTo(p.known.task.Entry(), p.known.task.Object, live)
		}
		done.describe(a.Settings.Claimant.Manager, p.known.expected, p.known.expectedKnown)
		change := &done.Change
		if change.Action == events.Relabelled && len(a.Settings.Claimant.ShardLabels) > 0 && p.known.task.Cause.Found != nil && object.Labelled(p.known.task.Cause.Found) { // it had lost the label of a shard
			change.Action = events.Restored
			if len(change.Fields) == 0 {
				change.Action = ""
			}
		}
		if p.known.task.Why == plan.WhyChanged && p.known.task.Cause.Found != nil {
			done.Applied.Kept = keptFields(ownership.Kept(p.known.task.Cause.Found, live, a.Settings.Claimant.Manager, v1alpha1.FieldManagerPrefix, done.Shown))
		}
		if len(change.Fields) == 0 && len(change.Reverted) == 0 {
			change.Reverted = change.Added.Changes
		}
	case Replaced, Failed:
		if a.Settings.Watched {
			a.Trigger.Abort(a.Settings.Claimant.Owner, p.known.task.Object.Key)
		}
		if done.End == Replaced {
			done.Recreation.Reason = object.Message(p.refused, done.Shown)
		}
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
	return known.RedactAll(warnings...)
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
		groups = append(groups, plan.KeptFields{Paths: ownership.KeptPaths(fields), Text: fmt.Sprintf(
			"the manifest dropped %s, and the field manager %q keeps it: remove it there, or from the object", display.First(paths, maxKept, len(fields)), manager)})
	}
	return groups
}
