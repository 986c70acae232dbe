package insight

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/deletion"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/apply"
	"github.com/vidra-operator/vidra/pkg/reconcile/breakglass"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/prune"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// removed is an object of the inventory that is no longer in the manifest.
type removed struct {
	*ObjectDifference

	key trigger.ObjectKey
	// exempt reports that its break-glass delays the removal.
	exempt bool
}

// pruned is about the objects of the inventory that are no longer in the manifest.
func (d *differ) pruned(ctx context.Context, resolved *desired.Resolved) ([]*ObjectDifference, error) {
	uids := map[string]bool{} // the API server may serve one object of the manifest in several groups
	for i := range d.VR.Status.ManagedResources {
		if e := &d.VR.Status.ManagedResources[i]; d.wanted[object.IdentityOf(e)] {
			uids[e.UID] = e.UID != ""
		}
	}
	var all []removed
	for i := range d.VR.Status.ManagedResources {
		e := &d.VR.Status.ManagedResources[i]
		id := object.IdentityOf(e)
		if d.wanted[id] || slices.ContainsFunc(resolved.Unresolved, func(u desired.Unresolved) bool { return u.Is(id) }) {
			continue
		}
		one, err := d.remove(ctx, e, uids)
		if err != nil {
			return nil, err
		}
		if one != nil {
			all = append(all, *one)
		}
	}
	differences := make([]*ObjectDifference, 0, len(all))
	for _, one := range all {
		if one.Action == ActionPrune {
			one.delayFor(all)
		}
		differences = append(differences, one.ObjectDifference)
	}
	return differences, nil
}

// delayFor adds that the deletion of a container waits for the break-glass of an object in it.
func (r removed) delayFor(all []removed) {
	id := r.identity()
	for _, other := range all {
		if other.exempt && prune.GoesWith(id, other.identity(), other.key) {
			r.Why += ". It is not deleted before the break-glass of " + other.Object() + " ends"
			return
		}
	}
}

// remove is about an object that is no longer in the manifest; nil if nothing happens to it.
func (d *differ) remove(ctx context.Context, e *v1alpha1.ManagedResourceStatus, uids map[string]bool) (*removed, error) {
	id, gvk := object.IdentityOf(e), object.GVKOf(e)
	one := &removed{ObjectDifference: newObjectDifference(id, gvk)}
	pruned := func(why string, args ...any) (*removed, error) {
		one.Action, one.Why = ActionPrune, d.left()+fmt.Sprintf(why, args...)
		return one, nil
	}
	if why := access.ObjectOutOfScope(d.Scope, id); why != nil && !d.VR.Orphans() {
		return pruned(". It is not deleted: %s", why.Message)
	}
	mapping, err := d.At.MappingInAnyVersion(ctx, gvk)
	switch {
	case meta.IsNoMatchError(err):
		definition, err := d.At.DefinitionOf(ctx, gvk.GroupKind())
		if d.VR.Orphans() || err == nil && definition == "" && !e.Aggregated { // the object is gone with its kind
			return nil, nil
		}
		return pruned(". It is not deleted while its kind is not served")
	case err != nil:
		return nil, fmt.Errorf("find the kind of %s: %w", id, err)
	}
	one.key = trigger.ObjectKey{Cluster: d.At.Name(), GVR: mapping.GVR, Namespace: id.Namespace, Name: id.Name}
	live, err := d.At.Dynamic().Resource(mapping.GVR).Namespace(id.Namespace).Get(ctx, id.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case apierrors.IsForbidden(err):
		return pruned(". You may not read it, so that it is not known whether it is kept")
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", id, err)
	case uids[string(live.GetUID())]:
		return nil, nil
	}
	return one, d.discard(ctx, one, e, live)
}

// discard decides what becomes of an object that left the manifest, by the decisions and in the order of the operator.
func (d *differ) discard(ctx context.Context, one *removed, e *v1alpha1.ManagedResourceStatus, live *unstructured.Unstructured) error {
	diff, id := one.ObjectDifference, object.IdentityIn(live)
	others, err := d.coOwners(live, func() ([]owners.CoOwner, error) { return d.finder().AllOwners(ctx, one.key, live) })
	if err != nil {
		return err
	}
	d.removal(diff, live, others)
	if glass := d.settings.AnswerTo(e, nil, live); (diff.Action == ActionPrune || len(others) > 0) && breakglass.Exempts(glass.Status, time.Now()) {
		one.exempt = true
		diff.Why += ". This waits for the end of its break-glass: " + plan.Exemption(glass.Status).Why
		return nil
	}
	if diff.Action != ActionPrune {
		return nil
	}
	if live.GetDeletionTimestamp() != nil {
		if diff.Why += ". Its deletion has begun"; deletion.WaitsFor(live) != "" {
			diff.Why += ", and waits for " + deletion.WaitsFor(live)
		}
		return nil
	}
	d.received(ctx, diff, id, one.key.GVR)
	switch {
	case diff.Action != ActionPrune:
	case len(others) > 0:
		diff.release(d.left(), others)
	case id.IsUndeletable():
		diff.Action, diff.Diff, diff.Why = ActionRelease, "", d.left()+", and the API server never deletes it: it stays, unmanaged"
	case id.IsContainer():
		d.contents(ctx, diff, live)
	}
	return nil
}

// received makes a deletion a move if another VidraResource has the object in its manifest.
func (d *differ) received(ctx context.Context, diff *ObjectDifference, id object.Identity, gvr schema.GroupVersionResource) {
	receiver, unknown := d.moves.receiver(ctx, d.VR.Name, d.At.Name(), id)
	if receiver == nil {
		if unknown != "" {
			diff.Why += ". It stays if " + unknown
		}
		return
	}
	may, err := mayPatch(ctx, d.At.Dynamic(), receiver, gvr, id)
	account := receiver.Spec.Destination.Namespace + "/" + receiver.Spec.ServiceAccountName
	if err == nil && !may {
		diff.Why += fmt.Sprintf(". VidraResource %s has it in its manifest, and its ServiceAccount %s may not patch it", receiver.Name, account)
		return
	}
	diff.Action, diff.Diff = ActionMove, ""
	diff.From, diff.To = d.VR.Name, receiver.Name
	diff.Why = "to VidraResource " + receiver.Name + ", which has it in its manifest"
	if receiver.Spec.Suspend {
		diff.Why += ", and applies it when its spec.suspend is false"
	}
	if err != nil {
		diff.Why += fmt.Sprintf(". It is deleted if the ServiceAccount %s of that may not patch it, which is not known: %s", account, object.Message(err, ownership.Disclose(false, false, false)))
	}
}

// contents decides about a Namespace or CustomResourceDefinition that would be deleted by its contents, as the operator does.
func (d *differ) contents(ctx context.Context, diff *ObjectDifference, live *unstructured.Unstructured) {
	inside, err := d.finder().Contents(ctx, d.At, live)
	switch why := inside.Blocked(d.settings.UnmanagedContents); {
	case err != nil:
		diff.Why += ". It is not known what it holds: " + object.Message(err, ownership.Disclose(false, false, false))
	case inside.Kept.Count > 0:
		diff.Action, diff.Diff = ActionRelease, ""
		diff.Why += ", and holds " + inside.Kept.String() + " with the annotation keep: it stays, unmanaged"
	case why != "":
		diff.Why += ". It is not deleted while " + why
	case inside.Unmanaged.Count > 0:
		diff.Why += fmt.Sprintf(". It is deleted with %d unmanaged objects: %s", inside.Unmanaged.Count, inside.Unmanaged)
	}
}

// finder returns the Finder of the other owners of objects, with which the operator decides.
func (d *differ) finder() *owners.Finder {
	return &owners.Finder{
		Claimant: d.settings.Claimant, Index: trigger.NewIndex(), VidraResources: reader{d.moves},
		Named: &owners.Named{Parts: func(ctx context.Context, vr *v1alpha1.VidraResource) ([]desired.Part, error) {
			c := d.moves.contentOf(ctx, vr)
			return c.parts, c.unread
		}},
	}
}

// coOwners returns the other VidraResources that own an object, as find finds them. If the user may not list VidraResources, those count
// that the object shows.
func (d *differ) coOwners(live *unstructured.Unstructured, find func() ([]owners.CoOwner, error)) ([]owners.CoOwner, error) {
	all, err := find()
	if !apierrors.IsForbidden(err) {
		return all, err
	}
	all = nil
	for _, manager := range ownership.Managers(live, v1alpha1.FieldManagerPrefix) {
		if name, _ := v1alpha1.ParseFieldManager(manager); manager != d.By.Manager {
			all = append(all, owners.CoOwner{Name: name, Manager: manager, Genuine: true, Owns: true})
		}
	}
	return all, nil
}

// identity is the object.
func (o *ObjectDifference) identity() object.Identity {
	group := schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).Group
	return object.Identity{GroupKind: schema.GroupKind{Group: group, Kind: o.Kind}, Namespace: o.Namespace, Name: o.Name}
}

// release is about an object that left for a reason, and that others keep.
func (o *ObjectDifference) release(left string, others []owners.CoOwner) {
	managers := make([]string, 0, len(others))
	for _, other := range others {
		managers = append(managers, other.Manager)
	}
	o.Action, o.Diff, o.Why = ActionRelease, "", left+", and other owners keep it: "+strings.Join(managers, ", ")
}

// left is why an object is removed.
func (d *differ) left() string {
	if !d.VR.DeletionTimestamp.IsZero() {
		return "the VidraResource is being deleted"
	}
	return "it is no longer in the manifest"
}

// removal decides what becomes of an object that left the manifest by its owners and annotations.
func (d *differ) removal(diff *ObjectDifference, live *unstructured.Unstructured, others []owners.CoOwner) {
	diff.Action = ActionRelease
	orphaning := ", and spec.prune is false: it stays, unmanaged"
	if !d.VR.DeletionTimestamp.IsZero() {
		orphaning = ", and spec.deletionPolicy is Orphan: it stays, unmanaged"
	}
	switch {
	case d.VR.Orphans():
		diff.Why = d.left() + orphaning
	case apply.AsksToStay(live):
		diff.Why = d.left() + ", and the annotation keep has it stay, unmanaged"
	case !owners.OnlyClaimed(live, others):
		diff.release(d.left(), others)
	case !d.Owns(live):
		diff.Why = d.left() + ", and Vidra does not own it any more"
	default:
		diff.Action, diff.Why, diff.Diff = ActionPrune, d.left(), d.unified(live, nil, ownership.Disclose(d.WasSensitive(object.IdentityIn(live)), ownership.SensitivityOf(live), false))
	}
}
