package reconcile

import (
	"context"
	"fmt"
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

// migrateLegacyOwner has an object that was just applied for the first time owned by us alone, if
// the first operator made it for this VidraResource. Otherwise a field that leaves the
// manifest one day would stay in the object, because the first operator owns it, too.
//
// What it wrote is unmanaged then rather than ours: some of it may be another VidraResource's,
// or that of another program with the same name, and an apply would take it away.
func (a *applier) migrateLegacyOwner(ctx context.Context, t task, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if t.why != whyNew || !slices.Contains(listed(live), a.owner.Name) {
		return live, nil
	}
	live, err := a.editManagedFields(ctx, t.key, live, func(live *unstructured.Unstructured) (managedFields any, changed bool, err error) {
		changed = slices.ContainsFunc(live.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == firstOperator })
		return ownership.Without(live, firstOperator), changed, nil
	})
	if err != nil {
		return nil, fmt.Errorf("take the object over from the first operator: %w", err)
	}
	return live, nil
}
