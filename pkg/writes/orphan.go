package writes

import (
	"context"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// Orphan has the objects of a VidraResource stay, unmanaged, when it is deleted.
func (c *Client) Orphan(ctx context.Context, name string) error {
	_, err := c.spec(ctx, name, "deletionPolicy", string(v1alpha1.DeletionOrphan))
	return err
}

// Keep has an object stay, unmanaged, when it leaves the manifest and when its VidraResource is deleted.
func (c *Client) Keep(ctx context.Context, of insight.Target) (object.Identity, error) {
	found, err := c.questions.Managed(ctx, of)
	if err != nil {
		return found.ID, err
	}
	return found.ID, c.annotate(ctx, found, map[string]any{v1alpha1.KeepAnnotation: "true"})
}
