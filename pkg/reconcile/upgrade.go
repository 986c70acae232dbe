package reconcile

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// firstOperator is the field manager with which the first Vidra operator created and
// updated objects.
const firstOperator = "manager"

// listed are the VidraResources in the list that the first operator kept on an object.
func listed(live *unstructured.Unstructured) []string {
	return v1alpha1.Owners(map[string]string{v1alpha1.OwnerAnnotation: live.GetAnnotations()[v1alpha1.OwnerAnnotation]})
}

// leftByFirstOperator reports whether the first operator wrote an object, as far as
// managedFields record it.
func leftByFirstOperator(live *unstructured.Unstructured) bool {
	entries := live.GetManagedFields()
	return len(entries) == 0 || slices.ContainsFunc(entries, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == firstOperator })
}

// withoutFirstOperator returns managedFields without those of the first operator. It is for an
// object that was just applied for the first time, and that the first operator made for the
// same VidraResource. Otherwise a field that leaves the manifest one day would stay in the
// object, because the first operator owns it, too.
//
// What it wrote is unmanaged then rather than ours: some of it may be another VidraResource's,
// or that of another program with the same name, and an apply would remove it.
func withoutFirstOperator(live *unstructured.Unstructured) (managedFields any, changed bool, err error) {
	changed = slices.ContainsFunc(live.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == firstOperator })
	return ownership.Without(live, firstOperator), changed, nil
}
