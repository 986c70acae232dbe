package apply

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
)

// notManaged returns the refusal of an object that no VidraResource owns.
func notManaged(why string) error {
	return &owners.Refusal{Reason: v1alpha1.ReasonAdoptionRefused, Text: "it exists and Vidra does not manage it: " + why}
}

// adopts returns a refusal if an object that exists, and that no VidraResource owns,
// is not to be adopted. It writes nothing.
func (a *Applier) adopts(ctx context.Context, t plan.Task, live *unstructured.Unstructured) error {
	switch a.Adopt {
	case v1alpha1.AdoptAlways:
		return nil
	case v1alpha1.AdoptNever:
		return notManaged("spec.adopt is Never. Remove it from the manifest, or delete the object so that Vidra can create it")
	case v1alpha1.AdoptIfIdentical:
	}
	t.Cause.Found = live
	adopted, err := a.dryRun(ctx, t)
	if err != nil {
		return err
	}
	differs := owners.AdoptionChanges(live, adopted, t.Unstructured(), a.Signature())
	if len(differs) == 0 {
		return nil
	}
	difference := display.Truncate(events.Differences(differs), object.MaxMessage)
	if elsewhere := a.OwnersElsewhere(t.Key, live, nil); len(elsewhere) > 0 {
		return &owners.Refusal{Reason: v1alpha1.ReasonOwnershipConflict, Text: fmt.Sprintf(
			"it exists, and the field manager %q of another Vidra installation applied it: %s. Make the manifests the same, take it out "+
				"of one of them, or set spec.adopt to Always to have it changed", elsewhere[0].Manager, difference)}
	}
	return notManaged(difference +
		". Make the manifest the same, set spec.adopt to Always to have it changed, or delete the object so that Vidra can create it")
}

// AsksToStay reports whether an object asks to be left in place.
func AsksToStay(live *unstructured.Unstructured) bool {
	return live.GetAnnotations()[v1alpha1.KeepAnnotation] == "true"
}

// Keeps reports whether an object asks to be left in place, and can be.
func Keeps(live *unstructured.Unstructured) bool {
	return AsksToStay(live) && live.GetDeletionTimestamp() == nil
}
