package reconcile

import (
	"context"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// accountMissing reports whether the last reconcile left the manifest unread for want of an
// account.
func (s *ownerState) accountMissing() bool {
	return s.plan.Read.Stalled != nil && s.plan.Read.Stalled.Reason == v1alpha1.ReasonServiceAccountRequired
}

// enqueueAccounts enqueues the VidraResources that name an account of a namespace whose labels have changed.
func (r *Reconciler) enqueueAccounts(ctx context.Context, namespace string) {
	if r.Accounts.Impersonated == nil {
		return
	}
	all := &v1alpha1.VidraResourceList{}
	if err := r.Clients.Client.List(ctx, all); err != nil { // from the cache, which has synced
		log.FromContext(ctx).Error(err, "Cannot list the VidraResources of a namespace", "namespace", namespace)
		return
	}
	for i := range all.Items {
		if vr := &all.Items[i]; vr.Spec.ServiceAccountName != "" && vr.Spec.Destination.Namespace == namespace {
			r.Watching.Trigger.EnqueueAll(client.ObjectKeyFromObject(vr))
		}
	}
}

// refuse ends a reconcile that connect has refused. Only the author can provide an account.
func (p *pass) refuse(ctx context.Context, why object.Failure) (reconcile.Result, error) {
	if why.Reason != v1alpha1.ReasonServiceAccountRequired {
		if p.plan.Scope.Resync { // it is made as soon as it can be
			p.state.plan.Schedule.Resync = time.Time{}
		}
		return p.block(ctx, why)
	}
	p.state.attempt.unbegun = p.plan.First
	return p.stall(ctx, why)
}

// awaitRights enqueues the VidraResource at the grant of the rights that the last requests lacked, and returns them.
func (p *pass) awaitRights(all bool) (missing map[access.Right]dynamic.Interface) {
	s := p.state
	if p.reconciler.Watching.grants == nil || p.applier.Client == nil { // nil if no request is sent
		return nil
	}
	missing = map[access.Right]dynamic.Interface{}
	maps.Copy(missing, s.read.unreadable)
	for o := range s.plan.Objects.All() {
		for _, right := range o.Attempts.MissingRights {
			missing[right] = p.applier.Client
		}
	}
	for key, status := range s.plan.Watching.Watches {
		if status.State == watchregistry.Degraded && status.Reason == watchregistry.ReasonForbidden {
			for _, right := range (access.Subject{Cluster: key.Cluster}).Rights(key.GVR, key.Namespace, "list", "watch") {
				missing[right] = access.ReviewsAsVidra(p.applier.Destination)
			}
		}
	}
	if all {
		p.reconciler.Watching.grants.Await(p.plan.Settings.Claimant.Owner, missing)
	}
	return missing
}

// granted makes an owner retry the requests that lacked a right.
func (r *Reconciler) granted(owner trigger.Owner, right access.Right) {
	gvr := schema.GroupVersionResource{Group: right.Group, Version: right.Version, Resource: right.Resource}
	r.Watching.Watches.WakeWatch(watchregistry.Key{Cluster: right.Subject.Cluster, GVR: gvr, Namespace: right.Namespace})
	r.Watching.Trigger.EnqueueRetry(owner)
}
