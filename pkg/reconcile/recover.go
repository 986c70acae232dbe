package reconcile

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// recoverInventory finds the objects that the VidraResource owns and its inventory lacks, if the inventory was emptied
// before this process began: the objects of the kinds of the manifest that our field manager applied since the VidraResource
// exists. (The inventory may also be still to be written, as between the finalizer and the first status.) Objects that left the
// manifest meanwhile are pruned then. Objects of other kinds are missed, because their kinds are unwatched; so are, if
// Vidra is limited to namespaces, objects in other namespaces.
func (p *pass) recoverInventory(ctx context.Context) {
	s := p.state
	if !s.inventory.recovers || !p.plan.Scope.All || !p.applier.Settings.Watched {
		return
	}
	watched := map[watchregistry.Key]*desired.Object{} // one object of each watch
	for _, o := range s.plan.Objects.Manifest {
		watched[p.applier.Settings.WatchKey(o.Desired.Key)] = o.Desired
	}
	found := map[object.Identity]*desired.Object{} // with an object of the same kind
	for key, like := range watched {
		objs, synced := p.reconciler.Watching.Watches.List(key)
		if !synced {
			return // the watch has the VidraResource reconciled when it is
		}
		for _, kept := range objs {
			if namespace, name, applied := trigger.AppliedBy(kept, p.applier.Settings.Claimant.Manager); applied {
				found[object.Identity{GroupKind: like.ID.GroupKind, Namespace: namespace, Name: name}] = like
			}
		}
	}
	maps.DeleteFunc(found, func(id object.Identity, _ *desired.Object) bool {
		o := s.plan.Objects.ByID[id]
		return o != nil && (o.Entry != nil || o.Desired != nil)
	})
	ids := slices.Collect(maps.Keys(found))
	ours, failed := make([]bool, len(ids)), make([]error, len(ids))
	p.applier.Parallel(len(ids), func(i int) { ours[i], failed[i] = p.appliedByThis(ctx, ids[i], found[ids[i]]) })
	err := errors.Join(failed...)
	if s.inventory.recovers = err != nil; err != nil {
		log.FromContext(ctx).Info("Cannot read objects that may be in the inventory, which was lost: they are not removed", "error", object.Message(err, ownership.Disclosure{}))
	}
	if slices.ContainsFunc(failed, func(err error) bool { return err != nil && !apierrors.IsForbidden(err) }) {
		p.reconciler.Watching.Trigger.EnqueueAfter(recoverRetry, p.plan.Settings.Claimant.Owner)
	}
	for i, id := range ids {
		if ours[i] {
			s.plan.Objects.Track(id).Entry = object.NewEntry(id, found[id].GVK)
		}
	}
}

// recoverRetry is the time until failed reads of objects for a lost inventory are repeated.
const recoverRetry = 10 * time.Second

// appliedByThis reports whether an object with our field manager was applied since the VidraResource exists. A former one of its name may have left it.
func (p *pass) appliedByThis(ctx context.Context, id object.Identity, like *desired.Object) (bool, error) {
	key := like.Key
	key.Namespace, key.Name = id.Namespace, id.Name
	live, err := p.applier.Get(ctx, key)
	if err != nil || live == nil {
		return false, err
	}
	return !ownership.LastApplied(live, p.applier.Settings.Claimant.Manager).Before(p.plan.VR.CreationTimestamp.Time), nil
}

// listTransferred takes the objects for the inventory that another VidraResource released to this one, which is still to apply them, as
// while it is suspended. They are of the manifest as it was read last: without an entry, nothing would remove them when they leave it. The
// spec may have turned events off since; their watches show them still.
func (p *pass) listTransferred() {
	if !p.plan.Scope.All {
		return
	}
	p.applier.Settings.Allowed = p.state.manifest.scope
	for _, o := range p.state.plan.Objects.Manifest {
		p.listIfTransferred(o.Desired)
	}
}

// listIfTransferred takes an object for the inventory if its watch shows it as released to this VidraResource.
func (p *pass) listIfTransferred(d *desired.Object) {
	if o := p.state.plan.Objects.ByID[d.ID]; o != nil && o.Entry != nil {
		return
	}
	if kept, found, synced := p.reconciler.Watching.Watches.Get(p.applier.Settings.WatchKey(d.Key), d.Key.Namespace, d.Key.Name); found && synced {
		if _, _, applied := trigger.AppliedBy(kept, p.applier.Settings.Claimant.Manager); applied {
			p.state.plan.Objects.Track(d.ID).Entry = object.NewEntry(d.ID, d.GVK)
		}
	}
}

// listLeft is listTransferred for the objects of the manifest that waited until now, and that the next one lacks.
func (p *pass) listLeft(next []*desired.Object) {
	has, was := map[object.Identity]bool{}, p.state.revision.objects
	p.state.revision.objects = make([]*desired.Object, 0, len(next))
	for _, d := range next {
		has[d.ID] = true
		p.state.revision.objects = append(p.state.revision.objects, &desired.Object{ID: d.ID, Key: d.Key, GVK: d.GVK})
	}
	for _, d := range was {
		if !has[d.ID] {
			p.listIfTransferred(d)
		}
	}
}

// lostInventory reports whether the VidraResource may have objects that its status lacks: the inventory was emptied before this
// process began, and the status shows that Vidra connected to the destination before, or shows nothing.
func (s *ownerState) lostInventory() bool {
	return s.inventory.recovers && (len(s.plan.Status.Conditions) == 0 || s.plan.Status.LastSyncTime != nil || s.plan.Status.ClusterUID != "" || s.plan.Status.KubeconfigDigest != "")
}

// recoverForRemoval takes the objects of the manifest for the inventory of a VidraResource that is being deleted, if that was
// emptied before this process began. Of these, the objects that our field manager applied are removed. It returns the reason
// for which the objects are unknown: then nothing may be forgotten.
func (p *pass) recoverForRemoval(ctx context.Context) *object.Failure {
	s := p.state
	if !s.inventory.recovers {
		return nil
	}
	lost := s.lostInventory() && !p.plan.VR.Orphans()
	s.plan.Read.Generation = 0
	why, _ := p.read(ctx)
	if i := slices.IndexFunc(s.plan.Objects.Unresolved, desired.Unresolved.AwaitsKind); why == nil && i >= 0 { // discovery may have failed
		u := s.plan.Objects.Unresolved[i]
		why = &object.Failure{Reason: u.Why.Reason, Message: u.ID.String() + ": " + u.Why.Message}
	}
	if why != nil && lost {
		return why
	}
	for _, o := range s.plan.Objects.Manifest {
		o.Entry = cmp.Or(o.Entry, object.NewEntry(o.ID, o.Desired.GVK))
	}
	s.inventory.recovers = false
	s.adopt(p.plan.VR.Generation, nil, nil)
	return nil
}
