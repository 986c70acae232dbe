package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// firstOperator is the field manager with which the first Vidra operator created and
// updated objects.
const firstOperator = "manager"

// succeed has an object that was just applied for the first time owned by us alone, if
// the first operator made it for this VidraResource. Otherwise a field that leaves the
// manifest one day would stay in the object, because the first operator owns it, too.
//
// What it wrote is nobody's then rather than ours: some of it may be another VidraResource's,
// or that of another program with the same name, and an apply would take it away.
func (a *applier) succeed(ctx context.Context, t task, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	noted := v1alpha1.Owners(map[string]string{v1alpha1.OwnerAnnotation: live.GetAnnotations()[v1alpha1.OwnerAnnotation]})
	if t.why != whyNew || !slices.Contains(noted, a.owner.Name) {
		return live, nil
	}
	err := retry.OnError(retry.DefaultRetry, apierrors.IsConflict, func() error {
		if !slices.ContainsFunc(live.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == firstOperator }) {
			return nil
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"resourceVersion": live.GetResourceVersion(), "managedFields": ownership.Without(live, firstOperator),
		}})
		if err != nil {
			return err
		}
		written, err := a.resource(t.key).Patch(ctx, t.key.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: a.manager})
		if apierrors.IsConflict(err) { // somebody wrote meanwhile
			if fresh, getErr := a.get(ctx, t.key); getErr == nil && fresh != nil {
				live = fresh
			}
		}
		if err == nil {
			live = written
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("take the object over from the first operator: %w", err)
	}
	return live, nil
}
