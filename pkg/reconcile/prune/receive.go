package prune

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// moveTimeout is how long an object waits for the VidraResource that it moved to. Then the object is left to that
// VidraResource as it is.
const moveTimeout = time.Minute

// findReceivers finds the other VidraResources that have one of ids in their manifests, as of the end of RemovalSettle of the
// last of them, as of now for objects that are removed without it, and at most receiversFor before now.
func (a *Remover) findReceivers(ctx context.Context, ids []object.Identity) (map[object.Identity][]owners.Receiver, error) {
	since := time.Now().Add(-receiversFor)
	for _, id := range ids {
		settled := time.Now()
		if left := a.Plan.State.Objects.ByID[id].Departure.At; !left.IsZero() {
			settled = left.Add(plan.RemovalSettle)
		}
		if settled.After(since) {
			since = settled
		}
	}
	return a.Applier.Finder.Named.Receivers(ctx, a.Applier.Settings.Claimant.Owner.Name, a.Applier.Destination.Name(), ids, since)
}

// transfer leaves an object to another VidraResource, which applies it as manager: that gets our fields.
func (a *Remover) transfer(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured, manager string) removal {
	metadata := a.withoutMarks(live, a.Applier.Settings.Claimant.Signature().Annotation)
	metadata["managedFields"] = ownership.Transfer(live, a.Applier.Settings.Claimant.Manager, manager)
	if _, err := a.Applier.EditMetadata(ctx, key, live, metadata); err != nil {
		return failure(fmt.Errorf("leave the object to its new owner: %w", err))
	}
	return removal{end: released}
}
