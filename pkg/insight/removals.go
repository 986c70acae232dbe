package insight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/internal/ending"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/breakglass"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/policy"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// pruned is about the objects of the inventory that left the manifest: members before their containers, as the operator
// removes them.
func (d *differ) pruned(ctx context.Context, resolved *desired.Resolved) ([]*ObjectDifference, error) {
	uids := map[types.UID]bool{} // the API server may serve one object of the manifest in several groups
	var left []*v1alpha1.ManagedResourceStatus
	waits := desired.MayBe(resolved.Unresolved)
	for i := range d.runner.VR.Status.ManagedResources {
		e := &d.runner.VR.Status.ManagedResources[i]
		switch id := object.IdentityOf(e); {
		case d.wanted[id]:
			uids[types.UID(e.UID)] = e.UID != ""
		case !waits(id):
			left = append(left, e)
		}
	}
	slices.SortStableFunc(left, func(a, b *v1alpha1.ManagedResourceStatus) int {
		return plan.CompareForRemoval(object.IdentityOf(a), object.IdentityOf(b))
	})
	members, err := d.wantedMembers(ctx, resolved, left)
	if err != nil {
		return nil, err
	}
	var differences []*ObjectDifference
	for _, e := range left {
		one, err := d.remove(ctx, e, uids, members)
		if err != nil {
			return nil, err
		}
		if one != nil {
			differences = append(differences, one)
		}
	}
	return differences, nil
}

// wantedMembers returns the objects of the manifest that decide about a container that left it.
func (d *differ) wantedMembers(ctx context.Context, resolved *desired.Resolved, left []*v1alpha1.ManagedResourceStatus) (*policy.Members, error) {
	members := &policy.Members{}
	for _, o := range resolved.Objects {
		if !slices.ContainsFunc(left, func(e *v1alpha1.ManagedResourceStatus) bool {
			return policy.GoesWith(object.IdentityOf(e), o.ID, o.Key)
		}) {
			continue
		}
		members.Needed.Add(o.ID, o.Key)
		live, err := d.runner.Live(ctx, o.Key)
		switch {
		case err != nil && !apierrors.IsForbidden(err):
			return nil, fmt.Errorf("read %s: %w", o.ID, err)
		case err != nil:
			d.unread.Undecided.Add(o.ID, o.Key)
		case live == nil:
		case policy.KeptByAnnotation(live):
			members.Kept.Add(o.ID, o.Key)
		case breakglass.Exempts(d.settings.AnswerTo(owners.EntryOf(d.runner.VR, o.ID), o, live).Status, time.Now()):
			members.Undecided.Add(o.ID, o.Key)
		}
	}
	return members, nil
}

// remove is about an object that left the manifest; nil if nothing happens to it.
func (d *differ) remove(ctx context.Context, e *v1alpha1.ManagedResourceStatus, uids map[types.UID]bool, members *policy.Members) (*ObjectDifference, error) {
	id, gvk := object.IdentityOf(e), object.GVKOf(e)
	diff := newObjectDifference(id, gvk)
	if Remote(d.runner.VR) {
		diff.Cluster = d.runner.VR.Spec.Destination.Server
	}
	pruned := func(why string, args ...any) (*ObjectDifference, error) {
		diff.Action, diff.Why = ActionPrune, d.left()+fmt.Sprintf(why, args...)
		return diff, nil
	}
	if why := access.ObjectOutOfScope(d.runner.Scope, id); why != nil && !d.runner.VR.Orphans() {
		members.Undecided.Add(id, trigger.ObjectKey{})
		return pruned(". It is not deleted: %s", why.Message)
	}
	mapping, err := d.kinds.InAnyVersion(ctx, d.runner.At, gvk)
	switch {
	case meta.IsNoMatchError(err):
		kind := policy.UnservedKind{GVK: gvk, Aggregated: e.Aggregated}
		if kind.Definition, kind.Unknown = d.kinds.DefinitionOf(ctx, d.runner.At, gvk.GroupKind()); !kind.Decide(d.runner.VR.Orphans()).Waits() {
			return nil, nil // the object is gone with its kind
		}
		members.Undecided.Add(id, trigger.ObjectKey{})
		return pruned(". It is not deleted while its kind is not served")
	case err != nil:
		return nil, fmt.Errorf("find the kind of %s: %w", id, err)
	}
	key := trigger.ObjectKey{Cluster: d.runner.At.Name(), GVR: mapping.GVR, Namespace: id.Namespace, Name: id.Name}
	live, err := d.runner.Live(ctx, key)
	switch {
	case apierrors.IsForbidden(err):
		d.unread.Undecided.Add(id, key)
		return pruned(". You may not read it, so that it is not known whether it is kept")
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", id, err)
	case live == nil:
		return nil, nil
	}
	about := &departure{differ: d, diff: diff, key: key, entry: e, of: policy.Departure{
		Live: live, Wanted: uids[live.GetUID()], Owned: d.runner.Owns(live), Orphans: d.runner.VR.Orphans(), UnmanagedContents: d.settings.UnmanagedContents,
		Members: members, Now: time.Now(), MoveEnds: time.Now().Add(time.Hour), ContentEnds: time.Now().Add(time.Hour),
	}}
	return about.describe(ctx)
}

// departure is an object that is to be removed, with the facts that decide about it.
type departure struct {
	of     policy.Departure
	differ *differ
	diff   *ObjectDifference
	key    trigger.ObjectKey
	entry  *v1alpha1.ManagedResourceStatus
	// exempt is the answer to the break-glass annotations of an exempt object; nil for others. With it, the decision is about
	// the time after its end.
	exempt *v1alpha1.BreakGlassStatus
	// remarks follow the reason of the difference.
	remarks string
}

// describe returns the effect of the operator on the object, first or last, or nil.
func (p *departure) describe(ctx context.Context) (*ObjectDifference, error) {
	decision, err := policy.Decide(ctx, p.of, p)
	if err == nil && decision.Reason == policy.Exempt {
		p.exempt = p.BreakGlass()
		p.remarks += ". This waits for the end of its break-glass: " + decision.Cause
		decision, err = policy.Decide(ctx, p.of, p)
	}
	if policy.KeptByAnnotation(p.of.Live) {
		p.of.Members.Kept.Add(p.id(), p.key)
	}
	if p.exempt != nil || decision.Waits() {
		p.of.Members.Undecided.Add(p.id(), p.key)
	}
	if err == nil && decision.Reason == policy.Undecided {
		p.remarks += ". It is not deleted before " + decision.Cause + ", which would be deleted with it"
		p.of.Members = p.of.Members.Decided()
		decision, err = policy.Decide(ctx, p.of, p)
	}
	if member, is := p.differ.unread.Undecided.In(p.id()); is {
		p.remarks += fmt.Sprintf(". You may not read %s, which would be deleted with it, so that it is not known whether it is kept", member)
	}
	switch {
	case err != nil:
		return nil, err
	case decision.Reason == policy.Wanted:
		return nil, nil
	case decision.Keeps():
		p.kept(ctx, decision)
	default:
		p.removed(decision)
	}
	p.diff.Why += p.remarks
	return p.diff, nil
}

// kept is about an object that stays.
func (p *departure) kept(ctx context.Context, decision policy.Removal) {
	const unmanaged = ": it stays, unmanaged"
	p.diff.Action, p.diff.Why = ActionRelease, p.differ.left()
	switch decision.Reason {
	case policy.Orphaned:
		if p.differ.runner.VR.DeletionTimestamp.IsZero() {
			p.diff.Why += ", and spec.prune is false" + unmanaged
		} else {
			p.diff.Why += ", and spec.deletionPolicy is " + string(p.differ.runner.VR.Spec.DeletionPolicy) + unmanaged
		}
	case policy.Annotated:
		p.diff.Why += ", and the annotation keep has it stay, unmanaged"
	case policy.NotOwned:
		p.diff.Why += ", and Vidra does not own it any more"
	case policy.Shared:
		if owners.OnlyClaimed(p.of.Live, decision.Owners) { // the owner receives the fields
			if moves := policy.DecideUnshared(ctx, p.of, p); moves.Reason == policy.Moving || moves.Reason == policy.RightsUnknown {
				p.moved(moves)
				return
			}
		}
		managers := make([]string, 0, len(decision.Owners))
		for _, other := range decision.Owners {
			managers = append(managers, other.Manager)
		}
		p.diff.Why += ", and other owners keep it: " + strings.Join(managers, ", ")
	case policy.HoldsKept:
		p.diff.Why += ", and " + decision.Cause + unmanaged
	case policy.Moved:
		p.moved(decision)
	default:
		p.diff.Why += ", and " + cmp.Or(decision.Text, "the operator keeps it") + unmanaged
	}
}

// removed is about an object that is deleted, now or later, or that moves.
func (p *departure) removed(decision policy.Removal) {
	mentioned := decision.Receiver != nil && decision.Receiver.Mentioned
	if decision.Receiver != nil && decision.Receiver.Unknown != nil {
		decision.Reason = policy.ReceiversUnknown
	}
	if (decision.Reason == policy.Moving || decision.Reason == policy.RightsUnknown) && !mentioned {
		p.moved(decision)
		return
	}
	p.diff.Action, p.diff.Why = ActionPrune, p.differ.left()
	p.diff.Diff = p.differ.unified(p.of.Live, nil, ownership.Disclose(p.differ.runner.WasSensitive(p.id()), ownership.SensitivityOf(p.of.Live), false))
	if mentioned {
		p.remarks += fmt.Sprintf(". It stays if %s %s has it in its manifest, which is not known: the manifest is invalid", v1alpha1.Kind, decision.Receiver.VidraResource.Name)
	}
	switch decision.Reason {
	case policy.ReceiversUnknown:
		name, cause := "another "+v1alpha1.Kind, ": "+decision.Cause
		if receiver := decision.Receiver; receiver != nil {
			name, cause = v1alpha1.Kind+" "+receiver.VidraResource.Name, ""
			if receiver.Unknown != nil {
				cause = ": " + withoutValues(receiver.Unknown).Error()
			}
		}
		p.remarks += ". It stays if " + name + " has it in its manifest, which is not known" + cause
	case policy.ContentsUnknown:
		p.remarks += ". It is not known what it holds: " + decision.Cause
	case policy.Occupied:
		p.remarks += ". It is not deleted while " + decision.Cause
	default:
		if decision.Waits() && !mentioned {
			p.remarks += ". It " + decision.Text
		}
	}
	switch waitsFor := ending.WaitsFor(p.of.Live); {
	case decision.Waits():
	case decision.Text != "":
		p.remarks += ". It is deleted " + decision.Text
	case p.of.Live.GetDeletionTimestamp() == nil:
	case waitsFor != "":
		p.remarks += ". Its deletion has begun, and waits for " + waitsFor
	default:
		p.remarks += ". Its deletion has begun"
	}
}

// moved is about an object that another VidraResource has in its manifest.
func (p *departure) moved(decision policy.Removal) {
	receiver := decision.Receiver
	p.diff.Action, p.diff.From, p.diff.To = ActionMove, p.differ.runner.VR.Name, receiver.VidraResource.Name
	p.diff.Why = "to VidraResource " + receiver.VidraResource.Name + ", which has it in its manifest"
	if receiver.VidraResource.Spec.Suspend {
		p.diff.Why += ", and applies it when its spec.suspend is false"
	}
	if decision.Reason == policy.RightsUnknown {
		p.remarks += fmt.Sprintf(". It is deleted if the ServiceAccount %s of that may not patch it, which is not known: %s", accountOf(receiver), decision.Cause)
	}
}

// id is the object as the API server has it.
func (p *departure) id() object.Identity { return object.IdentityIn(p.of.Live) }

// accountOf is the account of a VidraResource, NAMESPACE/NAME.
func accountOf(receiver *owners.Receiver) string {
	return receiver.VidraResource.Spec.Destination.Namespace + "/" + receiver.VidraResource.Spec.ServiceAccountName
}

// left is the reason of a removal.
func (d *differ) left() string {
	if !d.runner.VR.DeletionTimestamp.IsZero() {
		return "the VidraResource is being deleted"
	}
	return "it is no longer in the manifest"
}

// withoutValues is an error of a request about other objects, without values.
func withoutValues(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(object.Message(err, ownership.Disclose(false, false, false)))
}

// Stale implements policy.Facts.
func (p *departure) Stale(context.Context) error { return nil }

// BreakGlass implements policy.Facts.
func (p *departure) BreakGlass() *v1alpha1.BreakGlassStatus {
	if p.exempt != nil { // the decision is the one after its end
		return nil
	}
	return p.differ.settings.AnswerTo(p.entry, nil, p.of.Live).Status
}

// Owners implements policy.Facts.
func (p *departure) Owners(ctx context.Context) ([]owners.CoOwner, error) {
	return p.differ.coOwners(p.of.Live, func() ([]owners.CoOwner, error) { return p.differ.finder().AllOwners(ctx, p.key, p.of.Live) })
}

// Receivers implements policy.Facts. If others than those in the files are unknown, those in the files decide.
func (p *departure) Receivers(ctx context.Context) (iter.Seq[owners.Receiver], error) {
	finder := p.differ.finder()
	all, err := finder.Named.Receivers(ctx, p.differ.runner.VR.Name, p.differ.runner.At.Name(), []object.Identity{p.id()}, time.Time{})
	if len(all) > 0 {
		err = nil
	}
	return finder.Identified(ctx, p.key, p.of.Live, all[p.id()]), withoutValues(err)
}

// MayTake implements policy.Facts.
func (p *departure) MayTake(ctx context.Context, receiver *owners.Receiver) (bool, error) {
	may, err := p.differ.finder().MayTake(ctx, receiver.VidraResource, p.key)
	if err == nil && !may {
		p.remarks += fmt.Sprintf(". VidraResource %s has it in its manifest, and its ServiceAccount %s may not patch it", receiver.VidraResource.Name, accountOf(receiver))
	}
	return may, err
}

// Contents implements policy.Facts.
func (p *departure) Contents(ctx context.Context) (owners.Inside, error) {
	inside, err := p.differ.finder().Contents(ctx, p.differ.runner.At, p.of.Live, false)
	return inside, withoutValues(err)
}

// finder returns the Finder of the other owners of objects, as the operator has it.
func (d *differ) finder() *owners.Finder {
	return &owners.Finder{
		Claimant: d.settings.Claimant, Index: trigger.NewIndex(), VidraResources: reader{moves: d.moves}, Named: d.moves.named,
		MayTake: func(ctx context.Context, vr *v1alpha1.VidraResource, key trigger.ObjectKey) (bool, error) {
			may, err := mayPatch(ctx, d.runner.At.Dynamic(), vr, key)
			return may, withoutValues(err)
		},
		IsSame: d.isSame,
	}
}

// isSame reports whether an object is also the object of its name at the destination of a VidraResource, as the operator finds it.
func (d *differ) isSame(ctx context.Context, vr *v1alpha1.VidraResource, key trigger.ObjectKey, live *unstructured.Unstructured) (bool, error) {
	same, err := d.moves.identities.IsSame(ctx, d.runner.At, key, live, func(ctx context.Context) (access.Destination, cluster.Scope, func(), error) {
		at, err := d.moves.client.destinationOf(ctx, vr)
		if err != nil {
			return nil, cluster.Scope{}, nil, err
		}
		return at, at.Scope(), func() {}, nil
	}, func(access.Destination) types.UID { return types.UID(vr.Status.ClusterUID) })
	return same, withoutValues(err)
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
		if name, _ := v1alpha1.ParseFieldManager(manager); manager != d.runner.By.Manager {
			all = append(all, owners.CoOwner{Name: name, Manager: manager, Genuine: true, Owns: true})
		}
	}
	return all, nil
}
