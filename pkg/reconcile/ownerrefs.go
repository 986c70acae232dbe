package reconcile

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// otherReferences returns the ownerReferences of an object without those to the VidraResource
// name, and reports whether it had such a one. The first operator set them on each object. The
// garbage collector would delete the object with the VidraResource, also where it has to stay.
func otherReferences(live *unstructured.Unstructured, name string) (others []metav1.OwnerReference, changed bool) {
	all := live.GetOwnerReferences()
	others = slices.DeleteFunc(slices.Clone(all), func(ref metav1.OwnerReference) bool {
		version, err := schema.ParseGroupVersion(ref.APIVersion)
		return err == nil && version.Group == v1alpha1.GroupVersion.Group && ref.Kind == v1alpha1.Kind && ref.Name == name
	})
	return others, len(others) < len(all)
}
