package owners

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// AdoptionChanges returns the fields of an object without an owner that its adoption would change. adopted is the answer to a
// dry run of the apply, and applied is the applied configuration. known is the decision about values of the object without
// these.
func AdoptionChanges(live, adopted, applied *unstructured.Unstructured, by object.Signature, known ownership.Disclosure) []ownership.Change {
	// The marks that Vidra adds to every object are ignored, except where another client finds the object by them.
	found := live.DeepCopy()
	by.Mark(found)
	if value, labelled := live.GetLabels()[v1alpha1.ManagedByLabel]; labelled {
		found.SetLabels(labels.Merge(found.GetLabels(), labels.Set{v1alpha1.ManagedByLabel: value}))
	}
	if withheld, set := applied.GetAnnotations()[ownership.SensitiveAnnotation]; set {
		found.SetAnnotations(labels.Merge(found.GetAnnotations(), labels.Set{ownership.SensitiveAnnotation: withheld}))
	}
	return slices.DeleteFunc(ownership.Drift(found, adopted, by.Manager, known.With(live, applied)), func(c ownership.Change) bool {
		return c.Kind == ownership.Taken || c.Pointer == "" && c.Path == "metadata.managedFields" // nothing is ours yet
	})
}
