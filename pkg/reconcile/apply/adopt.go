package apply

import (
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/policy"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// applyUnmet ends a task after a failed creation, by the object in its place: it applies
// the task again with the object, or refuses it if its adoption is forbidden.
func (a *Applier) applyUnmet(ctx context.Context, t plan.Task, done Result) Result {
	met, err := a.Preflight(ctx, t)
	switch refused, conflict := new(owners.Refusal), new(owners.Conflict); {
	case errors.As(err, &refused), errors.Is(err, ErrForeign):
		done.Err = err
	case errors.As(err, &conflict) && a.Settings.Claimant.Applied(met.Cause.Found): // the marks alone would remove what it has of ours
		done.Err = err
	case errors.As(err, &conflict):
		done.Err = errors.Join(err, claim(ctx, a.calls(t.Object.Key), a.Settings, t))
	case err == nil && (met.Cause.Found != nil || apierrors.IsConflict(done.Err)):
		return a.Apply(ctx, met)
	case apierrors.IsForbidden(done.Err) && err != nil && !t.Begun:
		done.End = Unread
	}
	return done
}

// Preflight reads an object before its first apply, and refuses it if it exists
// and its adoption is forbidden. The cause then has the found object.
func (a *Applier) Preflight(ctx context.Context, t plan.Task) (plan.Task, error) {
	return adopter{a.Settings, a.calls(t.Object.Key)}.preflight(ctx, t)
}

// adopter decides about existing objects before their first apply. It writes nothing.
type adopter struct {
	settings *plan.Settings
	api      objectAPI
}

func (a adopter) preflight(ctx context.Context, t plan.Task) (plan.Task, error) {
	live, err := a.api.get(ctx)
	if err != nil {
		return t, err
	}
	if live != nil {
		if err := a.mayTake(ctx, t, live); err != nil {
			t.Cause.Found = live // decides whether values in the error are shown
			return t, err
		}
	}
	t.Cause = trigger.Cause{Deleted: live == nil, Found: live}
	t.Begun = t.Begun && live != nil && a.settings.Claimant.Applied(live)
	return t, nil
}

// mayTake fails if the first apply of an existing object is forbidden. It is allowed
// if we applied it before, if it is ours or another VidraResource's, to own it together, by
// the rule of owners.Claimant.Owns, or if it is adopted. An object that is never changed may be applied if we created it. Marks that a user copied with the object name
// an owner, and prove nothing. It fails while the owner of the object has to revert an edit of it, too.
func (a adopter) mayTake(ctx context.Context, t plan.Task, live *unstructured.Unstructured) error {
	if t.Object.Lifetime.Apply.Leaves() {
		if a.settings.Claimant.Applied(live) {
			return nil
		}
		return ErrForeign
	}
	others, err := a.api.conflicting(ctx, live)
	if err == nil {
		err = owners.RivalOf(others, t.Object.Unstructured())
	}
	entry := t.Known.Entry
	if t.Why == plan.WhyNew && !t.Begun { // this reconcile has written it
		entry = nil
	}
	switch {
	case err != nil:
		return err
	case a.settings.Claimant.Applied(live):
		return nil
	case len(others) >= owners.MaxOwners:
		return owners.Crowded(others)
	case slices.ContainsFunc(others, func(other owners.CoOwner) bool { return other.Owns }), a.settings.Claimant.Owns(live, entry):
		return nil
	}
	return a.adopts(ctx, t, live)
}

// adopts returns a refusal if an existing object has to stay unmanaged.
func (a adopter) adopts(ctx context.Context, t plan.Task, live *unstructured.Unstructured) error {
	adoption := policy.Adoption{Policy: a.settings.Adopt}
	if a.settings.Adopt == v1alpha1.AdoptIfIdentical {
		t.Cause.Found = live
		adopted, err := dryRun(ctx, a.api, a.settings, t)
		if err != nil {
			return err
		}
		adoption = a.settings.Adoption(t.Object.Key, live, adopted, t.Object.Unstructured(), t.Object.Disclosure(t.Known.WasSensitive()))
	}
	decision, reason := adoption.Decide(), v1alpha1.ReasonAdoptionRefused
	if decision.Reverts() {
		return nil
	}
	if decision.Rule == policy.Elsewhere {
		reason = v1alpha1.ReasonOwnershipConflict
	}
	return &owners.Refusal{Reason: reason, Text: decision.Reason}
}
