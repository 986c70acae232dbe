package prune

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/breakglass"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/policy"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// departure is an object to be removed. It implements policy.Facts: the facts that decide about it.
type departure struct {
	of      policy.Departure
	remover *Remover
	key     trigger.ObjectKey
	// entry is the inventory entry of the object.
	entry *v1alpha1.ManagedResourceStatus
	// glass is the answer to the break-glass annotations of an exempt object.
	glass breakglass.Answer
}

func (a *Remover) departure(key trigger.ObjectKey, live *unstructured.Unstructured, e *v1alpha1.ManagedResourceStatus) *departure {
	o, now := a.Plan.State.Objects.ByID[object.IdentityOf(e)], time.Now()
	d := &departure{remover: a, key: key, entry: e, of: policy.Departure{
		Live: live, Wanted: a.exclusions.wanted[live.GetUID()], Owned: a.Applier.Settings.Claimant.Owns(live, e), Orphans: a.Applier.Orphans,
		UnmanagedContents: a.Applier.Settings.UnmanagedContents, Members: &a.exclusions.members, Now: now,
		MoveEnds: o.Departure.At.Add(moveTimeout), ContentEnds: cmp.Or(o.Departure.Awaits, now).Add(moveTimeout),
	}}
	if o.Departure.Received {
		d.of.Settles = now.Add(plan.RemovalSettle)
	}
	return d
}

func (d *departure) Stale(context.Context) error {
	if d.remover.Replaced() {
		return errors.New("its destination has another kubeconfig now")
	}
	_, err := d.remover.stale()
	return err
}

func (d *departure) BreakGlass() *v1alpha1.BreakGlassStatus {
	answer := d.remover.Applier.Settings.AnswerTo(d.entry, nil, d.of.Live)
	if breakglass.Exempts(answer.Status, d.of.Now) {
		d.glass = answer
	}
	return answer.Status
}

func (d *departure) Owners(ctx context.Context) ([]owners.CoOwner, error) {
	return d.remover.Applier.Finder.AllOwners(ctx, d.key, d.of.Live)
}

func (d *departure) Receivers(ctx context.Context) (iter.Seq[owners.Receiver], error) {
	all, err := d.remover.receivers()
	return d.remover.Applier.Finder.Identified(ctx, d.key, d.of.Live, all[object.IdentityOf(d.entry)]), err
}

func (d *departure) MayTake(ctx context.Context, receiver *owners.Receiver) (bool, error) {
	return d.remover.Applier.Finder.MayTake(ctx, receiver.VidraResource, d.key)
}

func (d *departure) Contents(ctx context.Context) (owners.Inside, error) {
	return d.remover.Applier.Finder.Contents(ctx, d.remover.Applier.Destination, d.of.Live, d.of.Now.Before(d.of.ContentEnds))
}
