package reconcile

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// owns reports whether an object is ours: managedFields say that we applied it, or, where
// they were cleared, its annotation names us and no other manager set that. It must not be
// known to be another object than that of the inventory, which may be none. An annotation
// that another manager set was copied from an object of ours.
//
// What the first operator left lists us, and is in the inventory without a UID.
func (s *claimant) owns(live *unstructured.Unstructured, e *v1alpha1.ManagedResourceStatus) bool {
	if s.applied(live) {
		return true
	}
	if e != nil && e.UID != "" && e.UID != string(live.GetUID()) {
		return false
	}
	key := s.signature().annotation
	marked := live.GetAnnotations()[key] == s.owner.Name && len(ownership.AnnotationManagers(live, key)) == 0
	return marked || slices.Contains(listed(live), s.owner.Name) && leftByFirstOperator(live)
}

// bare is an object without content.
func bare(gvk schema.GroupVersionKind, key trigger.ObjectKey) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(key.Namespace)
	u.SetName(key.Name)
	return u
}

// delete deletes exactly the object that was read. No other function sends a deletion. One that
// does not exist any more is deleted, too.
func (a *applier) delete(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured) error {
	uid, version := live.GetUID(), live.GetResourceVersion()
	err := a.resource(key).Delete(ctx, key.Name, metav1.DeleteOptions{
		PropagationPolicy: ptr.To(metav1.DeletePropagationBackground),
		Preconditions:     &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}
