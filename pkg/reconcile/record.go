package reconcile

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// result is what came of a task.
type result struct {
	task
	err error
	// live is the object as the API server has it now; nil if it was not applied.
	live *unstructured.Unstructured
	// digest of what is ours in live, and of what is counted with it.
	digest ownership.Digest
	// compared reports that additions are what users added to the object and what is not reverted.
	compared  bool
	additions []ownership.Change
	// added is what an edit added, or users, and what was removed. unremovable describes what
	// users added and what cannot be removed, and why.
	added       ownership.Addition
	unremovable string
	// action and fields are what was done; no action if nothing was. reverted is what
	// another writer had changed and the new configuration of the manifest has reverted.
	action   events.Action
	fields   []ownership.Change
	reverted []ownership.Change
	// skipped is why the object was not reverted; nil if it was. unknown is why what differs
	// is not known then.
	skipped *skipReason
	unknown string
	// asSkipped reports that the object is as it was when it was last skipped.
	asSkipped bool
	// glass is the answer to its break-glass annotations.
	glass glassAnswer
	// ending reports that the object is being deleted.
	ending bool
	// replaced is why it is deleted to be created again; empty if it is not. replace is
	// the object that is still to be deleted then.
	replaced string
	replace  *unstructured.Unstructured
	// warnings are those of the API server about the object, and fields that a webhook changed.
	warnings []string
}

// begin notifies the index before the first request: it defers the events of the object
// until record.
func (a *applier) begin(r request) {
	if a.watched && r.kind != inOrder && r.kind != beingDeleted && (r.kind != observed || r.cause.Found != nil) {
		a.index.Begin(a.owner, r.key, a.manager)
	}
}

// record notifies the index of how a task ended, and returns the result.
func (a *applier) record(r request, warnings []string) result {
	done := result{
		task: r.task, err: r.err, glass: r.glass, added: r.added, unremovable: r.unremovable,
		warnings: withheld(r, warnings),
	}
	switch r.kind {
	case inOrder:
		done.asSkipped = r.expected.Unreverted
	case beingDeleted:
		if done.ending = true; r.why == whyNew && a.watched {
			a.index.ExpectRemoval(a.owner, r.key) // its end is no drift
		}
	case observed:
		done.skipped, done.fields, done.unknown = r.skip, r.fields, r.unknown
		if found := r.cause.Found; a.watched && found != nil {
			a.trigger.Observed(a.owner, r.key, a.seen(found, !r.skip.silent))
		}
	case unchanged:
		found := r.cause.Found
		if a.watched {
			a.trigger.Commit(a.owner, r.key, a.expectation(found))
		}
		done.compared, done.additions = true, r.byTools(found).Changes
	case applied:
		done.live = r.live
		expectation := a.expectation(r.live)
		if done.digest = expectation.Digest; a.watched {
			expectation.Raced = r.raced(expectation.Others)
			a.trigger.Commit(a.owner, r.key, expectation)
		}
		if !r.glass.seen {
			done.glass = a.answerTo(r.entry(), r.desired, r.live)
		}
		done.describe(a.manager, r.expected, r.expectedKnown)
		if done.compared = true; a.additions.policy == v1alpha1.AdditionsWarn {
			done.additions = r.byTools(r.live).Changes
		}
		if len(done.fields) == 0 && len(done.reverted) == 0 {
			done.reverted = done.added.Changes
		}
		done.ending = r.why != whyDrift && r.live.GetDeletionTimestamp() != nil
		if r.ignored == nil { // otherwise not all of it was sent
			done.warnings = append(done.warnings, alteredByWebhook(r.object(), r.live)...)
		}
	case replaced, failed:
		if a.watched {
			a.trigger.Abort(a.owner, r.key)
		}
		if r.kind == replaced {
			done.ending, done.replaced, done.replace = true, message(r.refused, r.sensitive), r.replace
		}
	case observe, create, reclaim, releaseIgnored, apply, replaceLists, askOwners, claim, recheck, read, giveBack, applyMarks,
		migrate, probe, readReplaced: // these are requests
	}
	return done
}

// expectation is what is expected of an object that is as the manifest says.
func (a *applier) expectation(live *unstructured.Unstructured) trigger.Applied {
	expected := a.seen(live, false)
	expected.Others = ownership.Others(live, v1alpha1.FieldManagerPrefix)
	return expected
}

// seen is what is expected of an object that stays as it is; unreverted reports that the object
// differs from the manifest.
func (a *applier) seen(live *unstructured.Unstructured, unreverted bool) trigger.Applied {
	return trigger.Applied{
		Manager: a.manager, Digest: trigger.DigestOf(live, a.manager, unreverted, a.additions.tools), Unreverted: unreverted,
		UID: live.GetUID(), ResourceVersion: live.GetResourceVersion(),
	}
}

// withheld returns the warnings of the API server about an object. Those about a sensitive
// object may quote a value.
func withheld(r request, warnings []string) []string {
	if len(warnings) > 0 && (r.sensitive || r.live == nil || ownership.Sensitive(r.live)) {
		return []string{"the API server warns of it; the warning is withheld because it may quote a value"}
	}
	return warnings
}
