package assignment

import (
	"context"
	"slices"
	"sync"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/relation"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Assignment is the set of VidraResources that an operator reconciles. The zero value belongs to an operator without flags.
// Its fields must stay as they are after the first call of a method. It is safe for concurrent use.
type Assignment struct {
	// Installation reconciles the VidraResources that name it.
	Installation v1alpha1.Installation
	// Shard is the shard of the VidraResources in the cache; empty if it has all.
	Shard v1alpha1.Shard
	// Elsewhere reads the VidraResources of other shards; nil without a shard.
	Elsewhere client.Reader

	// mu guards cancels and left.
	mu sync.Mutex
	// cancels end the reconciles and heals that run.
	cancels relation.Relation[trigger.Owner, *context.CancelFunc]
	// left are the VidraResources that have left the cache since their last reconciles began.
	left map[trigger.Owner]bool
}

// Reconciles reports whether the operator reconciles a VidraResource of the cache.
func (a *Assignment) Reconciles(vr *v1alpha1.VidraResource) bool {
	return v1alpha1.InstallationOf(vr) == a.Installation
}

// Has reports whether a VidraResource as the API server has it belongs to the shard. The cache may still show one that has left it.
func (a *Assignment) Has(vr *v1alpha1.VidraResource) bool { return a.Shard == "" || a.Shard.Has(vr) }

// Holds reports whether the finalizer of the installation is still on a VidraResource.
func (a *Assignment) Holds(vr *v1alpha1.VidraResource) bool {
	return controllerutil.ContainsFinalizer(vr, a.Installation.Finalizer())
}

// Release has a reconcile of a VidraResource that another installation reconciles from now on
// leave its objects in place, unmanaged: the other one then adopts them. Where the
// VidraResource is being deleted, spec.deletionPolicy decides.
func Release(vr *v1alpha1.VidraResource) { vr.Spec.Prune = ptr.To(false) }

// Requested is a predicate of the controller. It reports whether an update gave a VidraResource to another
// installation, ended that another one holds it, changed its shards, or requests a reconcile.
func (a *Assignment) Requested(before, after *v1alpha1.VidraResource) bool {
	_, wasHeld := a.Installation.HeldByAnother(before)
	_, isHeld := a.Installation.HeldByAnother(after)
	return v1alpha1.InstallationOf(before) != v1alpha1.InstallationOf(after) || wasHeld && !isHeld ||
		!slices.Equal(v1alpha1.ShardsOf(before, a.Shard), v1alpha1.ShardsOf(after, a.Shard)) || before.ReconcileRequest() != after.ReconcileRequest()
}

// Running returns a context for a reconcile, which ends when the VidraResource leaves the shard. done must be called
// at the end of the reconcile. left reports that it has left the cache since the last reconcile began; it may be back.
// Reconciles of one VidraResource run one at a time.
func (a *Assignment) Running(ctx context.Context, owner trigger.Owner) (reconciling context.Context, left bool, done func()) {
	return a.begin(ctx, owner, true)
}

// Healing is Running for the heal of one object; several may run at a time. It leaves it to the next reconcile that the
// VidraResource has left the cache.
func (a *Assignment) Healing(ctx context.Context, owner trigger.Owner) (healing context.Context, left bool, done func()) {
	return a.begin(ctx, owner, false)
}

func (a *Assignment) begin(ctx context.Context, owner trigger.Owner, reconciles bool) (_ context.Context, left bool, done func()) {
	if a.Shard == "" {
		return ctx, false, func() {}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if left = a.left[owner]; reconciles {
		delete(a.left, owner)
	}
	ctx, cancel := context.WithCancel(ctx)
	a.cancels.Add(owner, &cancel)
	return ctx, left, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.cancels.Drop(&cancel)
		cancel()
	}
}

// Left is a predicate of the controller. It ends the reconcile and the heals of a VidraResource that has left the cache: another
// shard may reconcile it from now on.
func (a *Assignment) Left(e event.DeleteEvent) bool {
	owner := trigger.Owner{Name: e.Object.GetName()}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.Shard != "" {
		if a.left == nil {
			a.left = map[trigger.Owner]bool{}
		}
		a.left[owner] = true
	}
	if e.Object.GetDeletionTimestamp().IsZero() { // otherwise it is gone
		for _, end := range a.cancels.Keys(owner) {
			(*end)()
		}
	}
	return true
}
