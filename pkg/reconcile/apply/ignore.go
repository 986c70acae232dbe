package apply

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
)

// releaseFields releases the fields of ours that ignore rules exclude in the object as it is. It
// returns the object, and the configuration without it.
func (a *Applier) releaseFields(ctx context.Context, t plan.Task, live *unstructured.Unstructured) (*unstructured.Unstructured, []byte, error) {
	whole, err := a.patchDry(ctx, t.Key, t.Body)
	if err != nil {
		return nil, nil, err
	}
	var body []byte
	live, err = a.editManagedFields(ctx, t.Key, live, func(live *unstructured.Unstructured) (managedFields any, changed bool, err error) {
		full, reduced, err := t.Ignored.Without(t.Body, live, whole, a.Signature())
		if err != nil {
			return nil, false, err
		}
		if body, err = json.Marshal(reduced); err != nil {
			return nil, false, err
		}
		managedFields, changed = ownership.ReleaseFields(live, a.Manager, full, reduced)
		return managedFields, changed, nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("release ignored fields: %w", err)
	}
	return live, body, nil
}
