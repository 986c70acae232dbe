package prune

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
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
// last of them.
func (a *Remover) findReceivers(ctx context.Context, ids []object.Identity) (map[object.Identity][]owners.Receiver, error) {
	var since time.Time
	for _, id := range ids {
		if settled := a.Plan.State.Objects[id].LeftAt.Add(plan.RemovalSettle); settled.After(since) {
			since = settled
		}
	}
	return a.Finder.Named.Receivers(ctx, a.Owner.Name, a.Destination.Name(), ids, since)
}

// deleteUnlessReceived deletes an object that no VidraResource owns with us, unless another one has it in its manifest:
// the object moved there, and stays.
func (a *Remover) deleteUnlessReceived(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured, id object.Identity) Removal {
	all, err := a.receivers()
	if err != nil {
		return Removal{held: "is not removed before it is known whether another VidraResource has it in its manifest: " + err.Error()}
	}
	receiver, unknown := a.receiver(ctx, key, live, all[id])
	if receiver == nil {
		return a.deleteRead(ctx, key, live)
	}
	name, waits := receiver.Name, a.Plan.Now.Before(a.Plan.State.Objects[id].LeftAt.Add(moveTimeout))
	switch {
	case unknown != nil && waits:
		return Removal{held: fmt.Sprintf("is not removed before it is known whether the destination %s of VidraResource %s, which has an object of this name in its manifest, "+
			"is the same cluster: %v", receiver.Spec.Destination.Server, name, unknown)}
	case unknown != nil:
		return a.leave(ctx, key, live, fmt.Sprintf("VidraResource %s has an object of this name in its manifest, and it is not known whether its destination %s is the same cluster",
			name, receiver.Spec.Destination.Server))
	case receiver.Unknown != nil:
		return Removal{held: fmt.Sprintf("is not removed before it is known whether VidraResource %s has it in its manifest: %v", name, receiver.Unknown)}
	}
	switch may, err := a.MayTake(ctx, receiver.VidraResource, key); {
	case err != nil:
		return Removal{held: fmt.Sprintf("is not removed before it is known whether VidraResource %s, whose manifest has it, may apply it: %v", name, err)}
	case !may:
		return a.deleteRead(ctx, key, live)
	}
	if waits {
		return Removal{held: fmt.Sprintf("is in the manifest of VidraResource %s, and is released when that applies it", name)}
	}
	if receiver.Mentioned { // it may not have the object: nothing is given to it
		return a.leave(ctx, key, live, fmt.Sprintf("VidraResource %s mentions it, and its manifest cannot be read", name))
	}
	return a.transfer(ctx, key, live, v1alpha1.InstallationOf(receiver.VidraResource).FieldManager(name))
}

// receiver returns the first of several receivers whose object this is; nil if none is. unknown is why it is not known whether the
// object is that of the receiver.
func (a *Remover) receiver(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured, all []owners.Receiver) (found *owners.Receiver, unknown error) {
	for i := range all {
		same, err := true, error(nil)
		if all[i].Elsewhere {
			same, err = a.IsSame(ctx, all[i].VidraResource, key, live)
		}
		switch {
		case err == nil && same:
			return &all[i], nil
		case err != nil && found == nil:
			found, unknown = &all[i], err
		}
	}
	return found, unknown
}

// leave leaves an object in place, unmanaged, for a reason.
func (a *Remover) leave(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured, why string) Removal {
	done := a.release(ctx, key, live)
	done.note = why
	return done
}

// transfer leaves an object to another VidraResource, which applies it as manager: that gets our fields.
func (a *Remover) transfer(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured, manager string) Removal {
	metadata := a.withoutMarks(live)
	metadata["managedFields"] = ownership.Transfer(live, a.Manager, manager)
	if _, err := a.EditMetadata(ctx, key, live, metadata); err != nil {
		return Removal{Err: fmt.Errorf("leave the object to its new owner: %w", err)}
	}
	return Removal{Gone: true, Released: true}
}
