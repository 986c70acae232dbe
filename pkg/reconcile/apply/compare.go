package apply

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Finding is the result of a comparison with the API server.
type Finding struct {
	// Live is the object; nil if it is absent or is being deleted. Applied is its state without
	// differences.
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
	applied, err := dryRun(ctx, a.calls(d.Key), a.Settings, plan.Task{Object: d, Cause: trigger.Cause{Found: live}})
	if err != nil {
		return Finding{Err: err}
	}
	return Finding{Live: live, Applied: a.expectation(live), Version: live.GetResourceVersion(), Differs: len(ownership.Drift(live, applied, a.Settings.Claimant.Manager, ownership.Disclosure{})) > 0}
}
