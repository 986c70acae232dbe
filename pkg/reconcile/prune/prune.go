package prune

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/ending"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/apply"
	"github.com/vidra-operator/vidra/pkg/reconcile/breakglass"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/policy"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Removal is the outcome of the removal of one object.
type Removal struct {
	// Gone reports that the object has ceased to be ours: it is absent, or others
	// own it.
	Gone bool
	// Absent reports that it is absent.
	Absent bool
	// Deleted reports that a deletion was accepted, now or before. waitsFor is the known obstacle of its end; blocked, that it
	// has waited for long.
	Deleted, blocked bool
	waitsFor         string
	// version is the resourceVersion of the object that is being deleted, if it was read, and blockedAt is when its deletion counts as
	// blocked, or zero.
	version   string
	blockedAt time.Time
	// Released reports that our fields were released and others still own it.
	Released bool
	// unmanaged reports that it was left in place, unmanaged.
	unmanaged bool
	// missing reports that its kind is unserved, in every version; goneWithKind, that the kind was deleted, and the object
	// with it.
	missing, goneWithKind bool
	// goneWithNamespace reports that its removal was forbidden because its namespace is absent.
	goneWithNamespace bool
	// kept reports that the object itself asks to be left in place; unsure, that this is
	// unknown.
	kept, unsure bool
	// outOfScope refuses all requests about it; nil if they are sent.
	outOfScope *object.Failure
	// waits is the decision that delays the removal; else the zero value.
	waits policy.Removal
	// note is the note of the Event about the removal.
	note string
	// skipped reports that it was left out, because the reconcile was interrupted.
	skipped bool
	// key is the object.
	key trigger.ObjectKey
	// glass is the answer to its break-glass annotations.
	glass breakglass.Answer
	Err   error
	// former is the outcome of the attempt to remove it as the account that the spec named before, or empty.
	former string
	// disclosure is the decision about its values.
	disclosure ownership.Disclosure
}

// Remover removes objects of one VidraResource: those that left the manifest, or all of them.
type Remover struct {
	Applier *apply.Applier
	Plan    *plan.Planner
	// FormerClient returns the client of an account that the VidraResource named before, and its user.
	FormerClient func(ctx context.Context, account string) (as dynamic.Interface, user string, why *object.Failure)
	// Stale returns an error if the VidraResource of the cache is no reason for a removal; nil if the API server has the same
	// one.
	Stale func(ctx context.Context) error
	// Replaced reports that the destination may be another cluster than at the begin of the reconcile. It is asked about each object after its read:
	// the deletion of an object that was read before fails in another cluster, by its UID.
	Replaced func() bool
	// Interrupted reports that no further removal begins. Optional.
	Interrupted func() bool
	// stale is Stale, asked once for several objects.
	stale func() error
	// receivers returns the other VidraResources that have one of the objects in their manifests.
	receivers func() (map[object.Identity][]owners.Receiver, error)
	// exclusions are the objects that the removal must not delete.
	exclusions *exclusions
}

// remove deletes or releases an object: it deletes the object if this VidraResource is its only
// owner, and otherwise releases our fields only. An object that is not ours at this
// moment is unchanged.
func (a *Remover) remove(ctx context.Context, e *v1alpha1.ManagedResourceStatus) Removal {
	done := a.removeIn(ctx, e)
	if done.missing && done.key.Name != "" { // discovery was behind
		done = a.removeIn(ctx, e)
	}
	if e.RemoveAs != "" && lacksRights(done.Err) {
		done = a.removeAsFormer(ctx, e, done)
	}
	if since := a.Plan.State.Objects[object.IdentityOf(e)].KindGoneSince; done.missing && !since.IsZero() && a.Plan.Now.Sub(since) >= plan.KindGoneTimeout {
		return a.removeMissing(ctx, e)
	}
	return done
}

// removeMissing returns the outcome for an object whose kind is unserved, for longer than an API server takes to start. The
// object exists as long as the CustomResourceDefinition of its kind does, and was deleted with it. The objects of an extension
// API server exist wherever that keeps them.
func (a *Remover) removeMissing(ctx context.Context, e *v1alpha1.ManagedResourceStatus) Removal {
	kind := policy.UnservedKind{GVK: object.GVKOf(e), Aggregated: e.Aggregated}
	if !a.Applier.Orphans {
		kind.Definition, kind.Unknown = a.Applier.Destination.DefinitionOf(ctx, kind.GVK.GroupKind())
	}
	switch decision := kind.Decide(a.Applier.Orphans); {
	case decision.Keeps():
		return Removal{Gone: true, unmanaged: true}
	case decision.Waits():
		return Removal{waits: decision}
	}
	return Removal{Gone: true, goneWithKind: true}
}

// removeIn removes an object in its served version, as far as discovery is known.
func (a *Remover) removeIn(ctx context.Context, e *v1alpha1.ManagedResourceStatus) Removal {
	if why := access.ObjectOutOfScope(a.Applier.Settings.Allowed, object.IdentityOf(e)); why != nil {
		if a.Applier.Orphans {
			return Removal{Gone: true, unmanaged: true, kept: true}
		}
		why.Message = "is to be removed, and is not: " + why.Message
		return Removal{outOfScope: why, unsure: true}
	}
	mapping, err := a.Applier.Destination.MappingInAnyVersion(ctx, object.GVKOf(e))
	switch {
	case meta.IsNoMatchError(err):
		return Removal{missing: true}
	case err != nil:
		return Removal{Err: err, unsure: true}
	}
	key := trigger.ObjectKey{Cluster: a.Applier.Destination.Name(), GVR: mapping.GVR, Namespace: e.Namespace, Name: e.Name}
	var done Removal
	leave := a.Applier.Enter(ctx, key)
	defer func() { leave(done.Err) }()
	if a.interrupted() { // while it waited
		done.skipped = true
		return done
	}
	if a.Applier.Settings.Watched {
		a.Applier.Index.ExpectRemoval(a.Applier.Settings.Claimant.Owner, key)
	}
	// Another client may write to the object between the read and the deletion.
	_ = retry.OnError(retry.DefaultRetry, apierrors.IsConflict, func() error {
		done = a.removeLive(ctx, key, e)
		return done.Err
	})
	done.key = key
	if done.Gone || done.waits.Waits() { // what is held may come back into the manifest
		a.Applier.Index.Forget(a.Applier.Settings.Claimant.Owner, key)
	}
	return done
}

func (a *Remover) removeLive(ctx context.Context, key trigger.ObjectKey, e *v1alpha1.ManagedResourceStatus) Removal {
	live, err := a.Applier.Get(ctx, key)
	switch {
	case err != nil && object.KindGone(err):
		a.Applier.Destination.Invalidate(key.GVR.Group)
		return Removal{missing: true}
	case err != nil:
		return a.removeUnread(ctx, key, e, err)
	case live == nil:
		return Removal{Gone: true, Absent: true}
	}
	done := a.discard(ctx, key, live, e)
	if object.IsAbsent(done.Err, key.Name) { // another client was faster
		return Removal{Gone: true}
	}
	done.disclosure = disclosureOf(e, live)
	return done
}

// disclosureOf decides about values of an object that has left the manifest.
func disclosureOf(e *v1alpha1.ManagedResourceStatus, live *unstructured.Unstructured) ownership.Disclosure {
	return ownership.Disclose(ownership.Sensitivity(e.Sensitive), false, false).With(live)
}

// discard deletes or releases an object, or leaves it, by the decision about it.
func (a *Remover) discard(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured, e *v1alpha1.ManagedResourceStatus) Removal {
	about := a.departure(key, live, e)
	decision, err := policy.Decide(ctx, about.of, about)
	done := Removal{Err: err}
	switch ends := live.GetDeletionTimestamp() != nil; {
	case err != nil:
	case ends && decision.Keeps(): // another client deletes it
		done.Gone = true
	case ends:
		done.Deleted, done.waitsFor, done.blocked = true, ending.WaitsFor(live), ending.Blocked(live, time.Now())
		done.version, done.blockedAt = live.GetResourceVersion(), ending.BlockedAt(live)
	default:
		done = a.carryOut(ctx, about, decision)
	}
	done.kept = decision.Reason != policy.Wanted && policy.KeptByAnnotation(live)
	done.unsure = done.Err != nil && !decision.Removes() // its container would take it along
	return done
}

// carryOut sends the requests of a decision.
func (a *Remover) carryOut(ctx context.Context, about *departure, decision policy.Removal) Removal {
	key, live := about.key, about.of.Live
	switch {
	case decision.Waits():
		return Removal{waits: decision, glass: about.glass}
	case decision.Removes():
		done := a.delete(ctx, key, live)
		done.note = decision.Text
		return done
	}
	switch decision.Reason {
	case policy.Wanted, policy.NotOwned:
		return Removal{Gone: true}
	case policy.Shared:
		return a.handOver(ctx, about, decision.Owners)
	case policy.Moved:
		receiver := decision.Receiver
		manager := v1alpha1.InstallationOf(receiver.VidraResource).FieldManager(receiver.VidraResource.Name)
		return a.retry(a.transfer(ctx, key, live, manager), owners.CoOwner{Name: receiver.VidraResource.Name, Manager: manager})
	}
	done := a.release(ctx, key, live)
	done.note = decision.Text
	return done
}

// delete deletes the object that was read.
func (a *Remover) delete(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured) Removal {
	if err := a.Applier.Delete(ctx, key, live); err != nil {
		return Removal{Err: err}
	}
	return Removal{Deleted: true, waitsFor: ending.WaitsFor(live), blocked: ending.Blocked(live, time.Now())}
}

// handOver releases an object that others own, and retries their applies. If they only claim the object, or are still to apply
// it, the first of them gets our fields: without them the object might be empty, or refused, until that owner
// applies it, and an apply removes those that its manifest lacks.
func (a *Remover) handOver(ctx context.Context, about *departure, others []owners.CoOwner) Removal {
	done, key, live := Removal{}, about.key, about.of.Live
	if owners.OnlyClaimed(live, others) {
		done = a.transfer(ctx, key, live, others[0].Manager)
	} else if done = a.releaseShared(ctx, about); apierrors.IsInvalid(done.Err) {
		done = a.release(ctx, key, live)
	}
	if done.unmanaged {
		done.unmanaged, done.Released = false, true
	}
	return a.retry(done, others...)
}

// retry has the other owners of a released object attempt its apply at once, ahead of their watch, which may be behind.
func (a *Remover) retry(done Removal, others ...owners.CoOwner) Removal {
	if !done.Released {
		return done
	}
	for _, other := range others {
		if other.Manager == a.Applier.Settings.Claimant.Installation.FieldManager(other.Name) { // otherwise the watch of its operator shows the release
			a.Applier.Trigger.EnqueueRetry(trigger.Owner{Name: other.Name})
		}
	}
	return done
}
