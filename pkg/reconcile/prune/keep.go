package prune

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/apply"
	"github.com/vidra-operator/vidra/pkg/reconcile/breakglass"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// exclusions are the objects that a removal of objects must not delete. They are written between
// the stages of the removal only, in each of which many read them. Nil excludes nothing.
type exclusions struct {
	// wanted holds the UIDs of the objects that the manifest has: the API server may
	// serve one object in several groups.
	wanted map[types.UID]bool
	// kept are the objects that are to be left in place, and unsure those that are not to
	// be removed yet: it is not known whether they are kept, or break-glass holds them.
	// The values are what is known of their keys.
	kept, unsure map[object.Identity]trigger.ObjectKey
	// stayed are the entries of those that were left in place.
	stayed map[object.Identity]*v1alpha1.ManagedResourceStatus
}

// readAsVidra reads, as Vidra itself, an object that the account of the VidraResource may not
// read; nil if it does not exist.
func (a *Remover) readAsVidra(ctx context.Context, key trigger.ObjectKey) (live *unstructured.Unstructured, known bool) {
	if a.User == "" {
		return nil, false
	}
	live, err := access.GetAsVidra(ctx, a.Destination, key)
	return live, err == nil
}

// removeUnread returns what becomes of an object that the account of the VidraResource may not read,
// which failed. Nothing is to be removed of an object that does not exist, or is not ours. The outcome is
// the same for both, so that it does not show which objects exist.
func (a *Remover) removeUnread(ctx context.Context, key trigger.ObjectKey, e *v1alpha1.ManagedResourceStatus, failed error) Removal {
	live, known := a.readAsVidra(ctx, key)
	if known && (live == nil || !a.Owns(live, e)) {
		return Removal{Gone: true, Absent: live == nil}
	}
	return Removal{Err: failed, kept: known && apply.Keeps(live), unsure: !known}
}

// keptUnread finds out, as Vidra itself, whether an object asks to be left in place that
// the account of the VidraResource may not read.
func (a *Remover) keptUnread(ctx context.Context, key trigger.ObjectKey) (kept, unsure bool) {
	live, known := a.readAsVidra(ctx, key)
	return live != nil && apply.Keeps(live), !known
}

// GoesWith reports whether an object is deleted when container is, which is then its
// Namespace or the CustomResourceDefinition of its kind. Without its key, any of its group
// may be.
func GoesWith(container, id object.Identity, key trigger.ObjectKey) bool {
	switch {
	case container.GroupKind == object.NamespaceKind:
		return id.Namespace == container.Name
	case container.GroupKind != object.CRDKind:
		return false
	case key.Name == "":
		return strings.HasSuffix(container.Name, "."+id.Group)
	}
	return container.Name == key.GVR.Resource+"."+key.GVR.Group
}

// wants reports whether the manifest has an object, in another group.
func (s *exclusions) wants(live *unstructured.Unstructured) bool {
	return s != nil && s.wanted[live.GetUID()]
}

// holds reports whether an object that is to be left in place is deleted with container.
func (s *exclusions) holds(container object.Identity) bool {
	if s == nil {
		return false
	}
	for id, key := range s.kept {
		if GoesWith(container, id, key) {
			return true
		}
	}
	return false
}

// unsureIn names an object that is deleted with container, and of which it is not known whether
// it is to be left in place.
func (s *exclusions) unsureIn(container object.Identity) (id object.Identity, unsure bool) {
	if s == nil {
		return object.Identity{}, false
	}
	for id, key := range s.unsure {
		if GoesWith(container, id, key) {
			return id, true
		}
	}
	return object.Identity{}, false
}

// exclude returns the exclusions of a removal of objects. It reads the objects of the manifest
// that would be deleted with one of them.
func (a *Remover) exclude(ctx context.Context, removed []object.Identity) *exclusions {
	s := a.Plan.State
	excluded := &exclusions{
		wanted: map[types.UID]bool{}, stayed: map[object.Identity]*v1alpha1.ManagedResourceStatus{},
		kept: map[object.Identity]trigger.ObjectKey{}, unsure: map[object.Identity]trigger.ObjectKey{},
	}
	containers := slices.DeleteFunc(slices.Clone(removed), func(id object.Identity) bool {
		return !id.IsContainer() || s.Objects[id].In(v1alpha1.ObjectDeleting)
	})
	var within []*plan.Object
	for _, o := range s.Manifest {
		if o.Entry == nil || o.Entry.UID == "" {
			continue
		}
		excluded.wanted[types.UID(o.Entry.UID)] = true
		if slices.ContainsFunc(containers, func(container object.Identity) bool { return GoesWith(container, o.ID, o.Desired.Key) }) {
			within = append(within, o)
		}
	}
	found := make([]Removal, len(within))
	a.Parallel(len(within), func(i int) {
		d := within[i].Desired
		switch live, err := a.Get(ctx, d.Key); {
		case err != nil && !object.KindGone(err):
			found[i].kept, found[i].unsure = a.keptUnread(ctx, d.Key)
		case live != nil:
			found[i].kept = apply.Keeps(live)
			glass := a.AnswerTo(within[i].Entry, d, live)
			found[i].unsure = breakglass.Exempts(glass.Status, a.Plan.Now)
		}
	})
	for i, o := range within {
		found[i].key = o.Desired.Key
		excluded.note(o.ID, found[i])
	}
	return excluded
}

// note notes what the removal of an object found out about it.
func (s *exclusions) note(id object.Identity, done Removal) {
	if done.kept {
		s.kept[id] = done.key
	}
	if done.unsure {
		s.unsure[id] = done.key
	}
}

// recordStage notes what came of the removals of a stage.
func (a *Remover) recordStage(ctx context.Context, ids []object.Identity, removals []Removal) {
	s, excluded := a.Plan.State, a.exclusions
	for i, done := range removals {
		id, o := ids[i], s.Objects[ids[i]]
		entry, deleting := o.Entry, o.In(v1alpha1.ObjectDeleting) // it was checked before
		a.RecordRemoval(ctx, o, done)
		there := o.Entry != nil
		done.unsure = there && !deleting && (done.unsure || done.missing || done.held != "")
		if done.kept && !there {
			excluded.stayed[id] = entry
		}
		excluded.note(id, done)
	}
}

// endRemoval ends the removal of objects. What was left in place stays in the inventory
// until the object with which it would be deleted is released, too: Vidra may stop before.
func (a *Remover) endRemoval(removed []object.Identity) {
	s, excluded := a.Plan.State, a.exclusions
	for id, entry := range excluded.stayed {
		for _, container := range removed {
			if s.Objects[container].Entry != nil && GoesWith(container, id, excluded.kept[id]) {
				s.Track(id).Entry = entry
			}
		}
	}
	a.exclusions = nil
}
