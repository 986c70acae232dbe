package parts

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// maxNesting is how many VidraResources in VidraResources are searched for Secrets.
const maxNesting = 8

// Sensitive reports whether an object holds values that not all readers of VidraResources may read: a Secret, an object
// that has a Secret in a field, one with the annotation, or a VidraResource whose manifest has one.
func Sensitive(o *unstructured.Unstructured) bool { return sensitive(o, 0) }

func sensitive(o *unstructured.Unstructured, depth int) bool {
	gk := o.GroupVersionKind().GroupKind()
	switch {
	case gk.Group != v1alpha1.GroupVersion.Group || gk.Kind != v1alpha1.Kind:
		return bool(ownership.SensitivityOf(o))
	case ownership.Annotated(o):
		return true
	}
	text, _, _ := unstructured.NestedString(o.Object, "spec", "manifest")
	if depth >= maxNesting {
		return true
	}
	inner, err := manifest.Parse(text, manifest.Options{})
	if err != nil {
		return true // what it holds is not known
	}
	return slices.ContainsFunc(inner, func(o manifest.Object) bool { return sensitive(o.Unstructured, depth+1) })
}
