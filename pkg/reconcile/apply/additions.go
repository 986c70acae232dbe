package apply

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// undoTools describes what users added to an object, whenever that was.
func (k known) undoTools() ownership.Undo {
	return k.settings.Additions.Undo(k.Object, k.settings.Manager, k.disclosureWith())
}

// byTools finds what users added to an object.
func (k known) byTools(live *unstructured.Unstructured) ownership.Addition {
	return k.settings.Additions.In(live, k.Object, k.settings.Manager, k.disclosureWith())
}

// onlyAdditions reports whether what is ours in the object that was found is as it was
// applied last, so that there is nothing to apply.
func (k known) onlyAdditions() bool {
	entry, found := k.Entry(), k.Cause.Found
	if len(k.settings.Additions.Tools) == 0 || k.Why != plan.WhyDrift || found == nil || entry == nil || k.settings.Signature().MissingLabel(found) != "" {
		return false
	}
	return entry.Configuration == k.Configuration && trigger.DigestOf(found, k.settings.Manager, false, nil).String() == entry.Digest
}

// removeAdditions returns the first request that removes what users added to the object of
// r.live, which is otherwise as the manifest says: it takes the ownership of the additions, and
// applies. If the API server calls the object without them invalid, it returns the ownership,
// and the additions stay.
func (r request) removeAdditions() request {
	if added := r.byTools(r.live); len(added.Patch) == 0 {
		return r.finish()
	}
	r.goal, r.as, r.edit, r.found = toClean, plan.WhyDrift, r.undoTools(), r.live
	r.previous, r.reclaims = r.live, 0
	return r.reclaim(r.live)
}

func (r request) additionsReclaimed(taken *unstructured.Unstructured) request {
	switch {
	case !r.reclaimed:
		return r.failed(errors.New("it was changed while what was added to it was being removed; it is tried again"))
	case taken == nil:
		return r.finish()
	}
	r.cleaned, r.live = r.addition, taken
	return r.apply()
}

// cleanAnswered follows the apply that removes additions.
func (r request) cleanAnswered(got answer) request {
	switch {
	case got.err == nil:
		r.added, r.live = r.added.And(r.cleaned), got.live
		return r.finish()
	case !apierrors.IsInvalid(got.err) || object.Denied(got.err):
		r.unclaimed = r.previous
		return r.abandon(got.err)
	}
	refused := object.Message(got.err, r.disclosureWith(r.live))
	r.unremovable = fmt.Sprintf("%s. The API server refuses the object without it: %s", Differences(r.cleaned.Changes), refused)
	return r.give(r.previous)
}

// Differences describes what users added, in at most plan.MaxDifferences bytes.
func Differences(changes []ownership.Change) string {
	return display.Truncate(events.Differences(changes), plan.MaxDifferences)
}
