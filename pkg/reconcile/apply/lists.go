package apply

import (
	"context"
	"encoding/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"

	"github.com/vidra-operator/vidra/pkg/ownership"
)

// replaceLists removes the list items that are unreadable for server-side apply, and reports whether the error of the apply names any.
// Otherwise a JSON merge patch with the applied configuration, without the ignored fields, replaces each list as a whole: after it,
// server-side apply can read the object again.
func (p *procedure) replaceLists(ctx context.Context, unreadable error) (repaired bool, err error) {
	if repaired, err = p.removeUnreadable(ctx, unreadable); repaired || err != nil {
		return repaired, err
	}
	return false, p.api.merge(ctx, p.body)
}

// removeUnreadable removes the items that are unreadable for server-side apply from the lists of the applied configuration. It reports
// whether there were any that the error of the apply names.
func (p *procedure) removeUnreadable(ctx context.Context, unreadable error) (removed bool, err error) {
	var configuration map[string]any
	if err := json.Unmarshal(p.body, &configuration); err != nil {
		return false, err
	}
	err = retry.OnError(retry.DefaultRetry, apierrors.IsConflict, func() error {
		live, err := p.api.get(ctx)
		if err != nil || live == nil {
			return err
		}
		patch := ownership.RemoveUnreadable(live, configuration, unreadable.Error())
		if removed = len(patch) > 0; !removed {
			return nil
		}
		_, err = p.api.patch(ctx, append(patch, ownership.PatchOp{Op: "replace", Path: "/metadata/resourceVersion", Value: live.GetResourceVersion()}))
		return err
	})
	return removed, err
}
