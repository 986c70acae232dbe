package apply

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
)

// withoutFirstOperator returns managedFields without the entries of the first operator. It is for an
// object that was just applied for the first time, and that the first operator made for the
// same VidraResource. Otherwise a field that leaves the manifest one day would stay in the
// object, because the first operator owns it, too.
//
// Its fields become unmanaged rather than ours: some of them may belong to another VidraResource,
// or to another program with the same name, and an apply would remove them.
func withoutFirstOperator(live *unstructured.Unstructured) (managedFields []any, changed bool) {
	changed = slices.ContainsFunc(live.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == owners.FirstOperator })
	return ownership.Without(live, owners.FirstOperator), changed
}
