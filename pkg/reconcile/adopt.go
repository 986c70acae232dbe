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
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// refusal is why an object that exists is not taken over.
type refusal struct{ reason, why string }

// Error implements error.
func (r *refusal) Error() string { return r.why }

func (r *refusal) explain(whole error, _ bool) failure { return failure{r.reason, whole.Error()} }

// notManaged returns the refusal of an object that no VidraResource owns.
func notManaged(why string) error {
	return &refusal{v1alpha1.ReasonAdoptionRefused, "it exists and Vidra does not manage it: " + why}
}

// adopts returns a refusal if an object that exists, and that no VidraResource owns,
// is not to be taken over. It writes nothing.
func (a *applier) adopts(ctx context.Context, t task, live *unstructured.Unstructured) error {
	switch a.adopt {
	case v1alpha1.AdoptAlways:
		return nil
	case v1alpha1.AdoptNever:
		return notManaged("spec.adopt is Never. Remove it from the manifest, or delete the object so that Vidra can create it")
	case v1alpha1.AdoptIfIdentical:
	}
	t.cause.Found = live
	adopted, err := a.dryRun(ctx, t)
	if err != nil {
		return err
	}
	// What Vidra adds to every object is no difference, unless another client finds the
	// object by it.
	found := live.DeepCopy()
	a.signature().mark(found)
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
	difference := display.Truncate(events.Differences(differs), maxMessage)
	if elsewhere := a.ownersElsewhere(t.key, live, nil); len(elsewhere) > 0 {
		return &refusal{v1alpha1.ReasonOwnershipConflict, fmt.Sprintf(
			"it exists, and the field manager %q of another Vidra installation applied it: %s. Make the manifests the same, take it out "+
				"of one of them, or set spec.adopt to Always to have it changed", elsewhere[0].manager, difference)}
	}
	return notManaged(difference +
		". Make the manifest the same, set spec.adopt to Always to have it changed, or delete the object so that Vidra can create it")
}

// unlisted are the annotations, as a merge patch has them, that take an owner from the
// list that the first operator kept; none if it is not in it.
func unlisted(live *unstructured.Unstructured, owner string) map[string]any {
	names := listed(live)
	others := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == owner })
	switch len(others) {
	case len(names):
		return map[string]any{}
	case 0:
		return map[string]any{v1alpha1.OwnerAnnotation: nil}
	default:
		return map[string]any{v1alpha1.OwnerAnnotation: strings.Join(others, ",")}
	}
}

// editMetadata merges metadata into those of the object that was read, if no client has
// written to it since, and returns the object.
func (a *applier) editMetadata(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured, metadata map[string]any) (
	*unstructured.Unstructured, error,
) {
	metadata["resourceVersion"] = live.GetResourceVersion()
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return nil, err
	}
	return a.resource(key).Patch(ctx, key.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: a.manager})
}
