package reconcile

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// spared is what a removal of objects must not take along. It is written between the
// stages of the removal only, in each of which many read it. A nil one spares nothing.
type spared struct {
	// wanted holds the UIDs of the objects that the manifest has: the API server may
	// serve one object in several groups.
	wanted map[types.UID]bool
	// kept are the objects that are to be left in place, and unsure those that are not to
	// be removed yet: it is not known whether they are kept, or break-glass holds them.
	// The values are what is known of their keys.
	kept, unsure map[identity]trigger.ObjectKey
	// left are the entries of those that were left in place.
	left map[identity]*v1alpha1.ManagedResourceStatus
}

// asksToStay reports whether an object asks to be left in place.
func asksToStay(live *unstructured.Unstructured) bool {
	return live.GetAnnotations()[v1alpha1.KeepAnnotation] == "true"
}

// keeps reports whether an object asks to be left in place, and can be.
func keeps(live *unstructured.Unstructured) bool {
	return asksToStay(live) && live.GetDeletionTimestamp() == nil
}

// keptUnread finds out, as Vidra itself, whether an object asks to be left in place that
// the account of the VidraResource may not read.
func (a *remover) keptUnread(ctx context.Context, key trigger.ObjectKey) (kept, unsure bool) {
	if a.user == "" {
		return false, true
	}
	live, err := getAsVidra(ctx, a.destination, key)
	if err != nil {
		return false, true
	}
	return live != nil && keeps(live), false
}

// goesWith reports whether an object is deleted when container is, which is then its
// Namespace or the CustomResourceDefinition of its kind. Without its key, any of its group
// may be.
func goesWith(container, id identity, key trigger.ObjectKey) bool {
	switch {
	case container.GroupKind == (schema.GroupKind{Kind: "Namespace"}):
		return id.namespace == container.name
	case container.GroupKind != crdKind:
		return false
	case key.Name == "":
		return strings.HasSuffix(container.name, "."+id.Group)
	}
	return container.name == key.GVR.Resource+"."+key.GVR.Group
}

// wants reports whether the manifest has an object, in another group.
func (s *spared) wants(live *unstructured.Unstructured) bool {
	return s != nil && s.wanted[live.GetUID()]
}

// holds reports whether an object that is to be left in place goes with container.
func (s *spared) holds(container identity) bool {
	if s == nil {
		return false
	}
	for id, key := range s.kept {
		if goesWith(container, id, key) {
			return true
		}
	}
	return false
}

// unsureIn names an object that goes with container, and of which it is not known whether
// it is to be left in place.
func (s *spared) unsureIn(container identity) (id identity, unsure bool) {
	if s == nil {
		return identity{}, false
	}
	for id, key := range s.unsure {
		if goesWith(container, id, key) {
			return id, true
		}
	}
	return identity{}, false
}

// spare begins what is spared by a removal of objects. What the manifest still has and
// goes with one of them is read.
func (a *remover) spare(ctx context.Context, removed []identity) *spared {
	s := a.plan.state
	spares := &spared{
		wanted: map[types.UID]bool{}, left: map[identity]*v1alpha1.ManagedResourceStatus{},
		kept: map[identity]trigger.ObjectKey{}, unsure: map[identity]trigger.ObjectKey{},
	}
	containers := slices.DeleteFunc(slices.Clone(removed), func(id identity) bool {
		isContainer := id.GroupKind == crdKind || id.GroupKind == (schema.GroupKind{Kind: "Namespace"})
		return !isContainer || s.objects[id].in(v1alpha1.ObjectDeleting)
	})
	var within []*objectState
	for _, o := range s.manifest {
		if o.entry == nil || o.entry.UID == "" {
			continue
		}
		spares.wanted[types.UID(o.entry.UID)] = true
		if slices.ContainsFunc(containers, func(container identity) bool { return goesWith(container, o.id, o.desired.key) }) {
			within = append(within, o)
		}
	}
	found := make([]removal, len(within))
	a.parallel(len(within), func(i int) {
		d := within[i].desired
		switch live, err := a.get(ctx, d.key); {
		case err != nil && !kindGone(err, d.key.Name):
			found[i].kept, found[i].unsure = a.keptUnread(ctx, d.key)
		case live != nil:
			found[i].kept = keeps(live)
			glass := a.answerTo(within[i].entry, d, live)
			found[i].unsure = exempts(glass.answer, a.plan.now)
		}
	})
	for i, o := range within {
		found[i].key = o.desired.key
		spares.note(o.id, found[i])
	}
	return spares
}

// note notes what the removal of an object found out about it.
func (s *spared) note(id identity, done removal) {
	if done.kept {
		s.kept[id] = done.key
	}
	if done.unsure {
		s.unsure[id] = done.key
	}
}

// recordStage notes what came of the removals of a stage.
func (a *remover) recordStage(ctx context.Context, ids []identity, removals []removal) {
	s, spares := a.plan.state, a.spared
	for i, done := range removals {
		id, o := ids[i], s.objects[ids[i]]
		entry, going := o.entry, o.in(v1alpha1.ObjectDeleting) // it was looked at before
		a.recordRemoval(ctx, o, done)
		there := o.entry != nil
		done.unsure = there && !going && (done.unsure || done.missing || done.held != "")
		if done.kept && !there {
			spares.left[id] = entry
		}
		spares.note(id, done)
	}
}

// endRemoval ends the removal of objects. What was left in place stays in the inventory
// until that which it would go with is left, too: Vidra may stop before.
func (a *remover) endRemoval(removed []identity) {
	s, spares := a.plan.state, a.spared
	for id, entry := range spares.left {
		for _, container := range removed {
			if s.objects[container].entry != nil && goesWith(container, id, spares.kept[id]) {
				s.track(id).entry = entry
			}
		}
	}
	a.spared = nil
}
