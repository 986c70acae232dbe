package reconcile

import (
	"context"

	"github.com/vidra-operator/vidra/pkg/trigger"
)

// recoverInventory finds what the VidraResource owns and its inventory does not list, if
// the inventory was emptied before this process began: the objects of the kinds of the
// manifest that our field manager applied. What left the manifest meanwhile is pruned then.
// Objects of other kinds are not found, because their kinds are not watched.
func (p *pass) recoverInventory() {
	s := p.state
	if !s.recoversInventory || !p.scope.all || !p.applier.watched {
		return
	}
	found := map[identity]*desired{} // with an object of the same kind
	for _, like := range kindsOf(s.manifest) {
		objs, synced := p.Watches.List(watchKey(like.key))
		if !synced {
			return // the watch has the VidraResource reconciled when it is
		}
		for _, kept := range objs {
			if namespace, name, applied := trigger.AppliedBy(kept, p.applier.manager); applied {
				found[identity{GroupKind: like.id.GroupKind, namespace: namespace, name: name}] = like
			}
		}
	}
	s.recoversInventory = false
	for id, like := range found {
		if o := s.track(id); o.entry == nil && o.desired == nil {
			o.entry = entryOf(id, like.gvk)
		}
	}
}

// kindsOf returns one object of each kind.
func kindsOf(objects []*objectState) map[trigger.ObjectKey]*desired {
	kinds := map[trigger.ObjectKey]*desired{}
	for _, o := range objects {
		d := o.desired
		kinds[trigger.ObjectKey{Cluster: d.key.Cluster, GVR: d.key.GVR}] = d
	}
	return kinds
}

// recoverForRemoval takes the objects of the manifest for the inventory of a VidraResource
// that is being deleted, if that was emptied before this process began. Of these, what our
// field manager applied is removed.
func (p *pass) recoverForRemoval(ctx context.Context) {
	s := p.state
	if !s.recoversInventory {
		return
	}
	s.recoversInventory, s.generation = false, 0
	if p.read(ctx) == nil {
		for _, o := range s.manifest {
			if o.entry == nil {
				o.entry = entryOf(o.id, o.desired.gvk)
			}
		}
	}
	s.adopt(p.vr.Generation, nil, nil)
}
