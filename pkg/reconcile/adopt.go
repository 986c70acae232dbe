package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// refusal is why an object that exists is not taken over.
type refusal struct{ why string }

// Error implements error.
func (r *refusal) Error() string {
	return "it exists and Vidra does not manage it: " + r.why
}

// adopts returns a refusal if an object that exists, and that no VidraResource owns,
// is not to be taken over. It writes nothing.
func (a *applier) adopts(ctx context.Context, t task, live *unstructured.Unstructured) error {
	switch a.adopt {
	case v1alpha1.AdoptAlways:
		return nil
	case v1alpha1.AdoptNever:
		return &refusal{"spec.adopt is Never. Remove it from the manifest, or delete the object so that Vidra can create it"}
	case v1alpha1.AdoptIfIdentical:
	}
	t.cause.Found = live
	adopted, err := a.dryRun(ctx, t)
	if err != nil {
		return err
	}
	// What Vidra adds to every object is no difference, unless somebody else finds the
	// object by it.
	found := live.DeepCopy()
	mark(found, a.owner.Name)
	if value, labelled := live.GetLabels()[v1alpha1.ManagedByLabel]; labelled {
		labels := found.GetLabels()
		labels[v1alpha1.ManagedByLabel] = value
		found.SetLabels(labels)
	}
	if withheld, said := t.object().GetAnnotations()[ownership.SensitiveAnnotation]; said {
		annotations := found.GetAnnotations()
		annotations[ownership.SensitiveAnnotation] = withheld
		found.SetAnnotations(annotations)
	}
	differs := slices.DeleteFunc(ownership.Drift(found, adopted, a.manager), func(c ownership.Change) bool {
		return c.Kind == ownership.Taken || c.Pointer == "" && c.Path == "metadata.managedFields" // nothing is ours yet
	})
	if len(differs) == 0 {
		return nil
	}
	return &refusal{events.Truncate(events.Differences(differs), maxMessage) +
		". Make the manifest the same, set spec.adopt to Always to have it changed, or delete the object so that Vidra can create it"}
}

// orphan leaves an object in place, without a trace of us: what we own of it is
// nobody's then. An apply of nothing would take it away. The label stays while
// another VidraResource needs it.
func (a *applier) orphan(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured) removal {
	annotations := map[string]any{v1alpha1.OwnerAnnotationKey(a.owner.Name): nil}
	if text, listed := live.GetAnnotations()[v1alpha1.OwnerAnnotation]; listed {
		others := slices.DeleteFunc(v1alpha1.Owners(map[string]string{v1alpha1.OwnerAnnotation: text}), func(name string) bool {
			return name == a.owner.Name
		})
		annotations[v1alpha1.OwnerAnnotation] = strings.Join(others, ",")
		if len(others) == 0 {
			annotations[v1alpha1.OwnerAnnotation] = nil
		}
	}
	metadata := map[string]any{
		"resourceVersion": live.GetResourceVersion(), "annotations": annotations,
		"managedFields": ownership.Without(live, a.manager),
	}
	if !a.shared(live) {
		metadata["labels"] = map[string]any{v1alpha1.ManagedByLabel: nil}
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return removal{err: err}
	}
	_, err = a.resource(key).Patch(ctx, key.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: a.manager})
	if err != nil {
		return removal{err: fmt.Errorf("leave the object in place: %w", err)}
	}
	return removal{gone: true, orphaned: true}
}
