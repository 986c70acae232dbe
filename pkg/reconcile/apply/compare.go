package apply

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Finding is what a comparison with the API server found.
type Finding struct {
	// Live is the object; nil if it does not exist or is being deleted. Applied is what it is if
	// nothing differs.
	Live    *unstructured.Unstructured
	Applied trigger.Applied
	Version string
	Differs bool
	Err     error
}

// Compare asks the API server whether an apply would change an object.
func (a *Applier) Compare(ctx context.Context, d *desired.Object) Finding {
	live, err := a.Get(ctx, d.Key)
	if err != nil || live == nil {
		return Finding{Err: err, Differs: true}
	}
	if live.GetDeletionTimestamp() != nil {
		return Finding{}
	}
	applied, err := a.dryRun(ctx, plan.Task{Object: d, Cause: trigger.Cause{Found: live}})
	if err != nil {
		return Finding{Err: err}
	}
	return Finding{Live: live, Applied: a.expectation(live), Version: live.GetResourceVersion(), Differs: len(ownership.Drift(live, applied, a.Manager, ownership.Disclosure{})) > 0}
}
