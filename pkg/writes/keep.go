package writes

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/source"
)

// WriteEdit writes the text of an edit that is kept to spec.manifest or to the ConfigMap that has it, unless the text was changed since it
// was read.
func (c *Client) WriteEdit(ctx context.Context, k *insight.Kept) error {
	at, name, field := c.dynamic.Resource(v1alpha1.Resource).Namespace(""), k.Owner.Name, "/spec/manifest"
	what := "VidraResource " + name
	if k.Source != nil {
		key := source.KeyOf(k.Owner, *k.Source)
		at, name, field, what = c.part(key), key.Name, ownership.Field{Tokens: []string{"data", k.Source.Key}}.Pointer(), key.String()
	}
	operations := []ownership.PatchOp{{Op: "test", Path: field, Value: k.Before}, {Op: "replace", Path: field, Value: k.After}}
	body, err := json.Marshal(operations)
	if err != nil {
		return fmt.Errorf("encode the patch: %w", err)
	}
	_, err = at.Patch(ctx, name, types.JSONPatchType, body, metav1.PatchOptions{FieldManager: FieldManager})
	switch {
	case err == nil:
		return nil
	case apierrors.IsInvalid(err), apierrors.IsConflict(err):
		return fmt.Errorf("%s was changed meanwhile, or refuses the text: run the command again: %w", what, object.WithoutValues(err, ownership.Disclosure{}))
	case ownership.LacksRight(err):
		return fmt.Errorf("you may not patch %s, which has the manifest: ask for the right, or for the change: %w", what, err)
	}
	return fmt.Errorf("patch %s: %w", what, object.WithoutValues(err, ownership.Disclosure{}))
}
