package reconcile

import (
	"context"
	"slices"

	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// recoverInventory finds the objects that the VidraResource owns and its inventory lacks, if the inventory was emptied
// before this process began: the objects of the kinds of the manifest that our field manager applied. Objects that left the
// manifest meanwhile are pruned then. Objects of other kinds are missed, because their kinds are unwatched; so are, if
// Vidra is limited to namespaces, objects in other namespaces.
func (p *pass) recoverInventory() {
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
		objs, synced := p.reconciler.Watches.List(key)
		if !synced {
			return // the watch has the VidraResource reconciled when it is
		}
		for _, kept := range objs {
			if namespace, name, applied := trigger.AppliedBy(kept, p.applier.Settings.Claimant.Manager); applied {
				found[object.Identity{GroupKind: like.ID.GroupKind, Namespace: namespace, Name: name}] = like
			}
		}
	}
	s.inventory.recovers = false
	for id, like := range found {
		if o := s.plan.Objects.Track(id); o.Entry == nil && o.Desired == nil {
			o.Entry = object.NewEntry(id, like.GVK)
		}
	}
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
		if o.Entry != nil {
			continue
		}
		key := o.Desired.Key
		if kept, found, synced := p.reconciler.Watches.Get(p.applier.Settings.WatchKey(key), key.Namespace, key.Name); found && synced {
			if _, _, applied := trigger.AppliedBy(kept, p.applier.Settings.Claimant.Manager); applied {
				o.Entry = object.NewEntry(o.ID, o.Desired.GVK)
			}
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
		if o.Entry == nil {
			o.Entry = object.NewEntry(o.ID, o.Desired.GVK)
		}
	}
	s.inventory.recovers = false
	s.adopt(p.plan.VR.Generation, nil, nil)
	return nil
}
