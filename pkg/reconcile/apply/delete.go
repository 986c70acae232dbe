package apply

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Delete deletes exactly the object that was read. It is the only function that deletes a managed object, and
// succeeds for an object that is gone.
func (a *Applier) Delete(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured) error {
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
