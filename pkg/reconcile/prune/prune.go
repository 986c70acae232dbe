package prune

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/deletion"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/apply"
	"github.com/vidra-operator/vidra/pkg/reconcile/breakglass"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Removal is what came of the removal of one object.
type Removal struct {
	// Gone reports that the object is no longer ours: it does not exist, or others
	// own it.
	Gone bool
	// Absent reports that it does not exist.
	Absent bool
	// Deleted reports that a deletion was accepted, now or before. waitsFor is what the
	// object waits for then, as far as it is known; blocked, that it has waited for long.
	Deleted, blocked bool
	waitsFor         string
	// version is the resourceVersion of the object that is being deleted, if it was read, and blockedAt is when its deletion counts as
	// blocked; zero if it never does.
	version   string
	blockedAt time.Time
	// Released reports that our fields were released and others still own it.
	Released bool
	// unmanaged reports that it was left in place, unmanaged.
	unmanaged bool
	// missing reports that its kind is not served, in no version; goneWithKind, that the kind was deleted, and the object
	// with it.
	missing, goneWithKind bool
	// kept reports that the object itself asks to be left in place; unsure, that this is
	// not known.
	kept, unsure bool
	// outOfScope is why no request is sent about it; nil if one is.
	outOfScope *object.Failure
	// held is why it is not removed before something else is; occupied reports that a user has to remove that, and unserved that a user
	// has to have its kind served.
	held               string
	occupied, unserved bool
	// note is the note of the Event about the removal.
	note string
	// key is the object.
	key trigger.ObjectKey
	// glass is the answer to its break-glass annotations.
	glass breakglass.Answer
	Err   error
	// former is what became of the attempt to remove it as the account that the spec named before; empty if there was none.
	former string
	// disclosure is the decision about its values.
	disclosure ownership.Disclosure
}

// Remover removes objects of one VidraResource: those that left the manifest, or all of them.
type Remover struct {
	*apply.Applier
	Plan *plan.Planner
	// MayTake reports whether a VidraResource may apply an object, with the rights of its account.
	MayTake func(ctx context.Context, vr *v1alpha1.VidraResource, key trigger.ObjectKey) (bool, error)
	// IsSame reports whether an object is also the one of its name at the destination of a VidraResource, which is another URL.
	IsSame func(ctx context.Context, vr *v1alpha1.VidraResource, key trigger.ObjectKey, live *unstructured.Unstructured) (bool, error)
	// FormerClient returns the client of an account that the VidraResource named before, and its user.
	FormerClient func(ctx context.Context, account string) (as dynamic.Interface, user string, why *object.Failure)
	// Stale is why the VidraResource as the cache has it is no reason for a removal; nil if the API server has the same one.
	Stale func(ctx context.Context) error
	// stale is Stale, asked once for several objects.
	stale func() error
	// receivers returns the other VidraResources that have one of the objects in their manifests.
	receivers func() (map[object.Identity][]owners.Receiver, error)
	// exclusions are the objects that the removal must not delete.
	exclusions *exclusions
}

// remove deletes or releases an object: it deletes the object if no other VidraResource owns it
// with us, and otherwise releases our fields only. An object that is not ours at this
// moment is not changed.
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

// removeMissing returns what becomes of an object whose kind is not served, for longer than an API server takes to start. The
// object exists as long as the CustomResourceDefinition of its kind does, and was deleted with it. The objects of an
// extension API server exist wherever that keeps them.
func (a *Remover) removeMissing(ctx context.Context, e *v1alpha1.ManagedResourceStatus) Removal {
	if a.Orphans {
		return Removal{Gone: true, unmanaged: true}
	}
	const advice = ": serve the kind again, or set spec.deletionPolicy to Orphan to leave the object in place"
	gvk := object.GVKOf(e)
	switch definition, err := a.Destination.DefinitionOf(ctx, gvk.GroupKind()); {
	case err != nil:
		return Removal{held: fmt.Sprintf("is not removed, because its kind is not served, and it is not known whether the kind still exists: %v%s", err, advice)}
	case definition != "":
		return Removal{unserved: true, held: fmt.Sprintf("is not removed, because its kind is not served in any version, and %s exists%s", definition, advice)}
	case e.Aggregated:
		return Removal{unserved: true, held: fmt.Sprintf("is not removed, because its kind is not served: the APIService %s.%s of an extension API server is missing%s",
			gvk.Version, gvk.Group, advice)}
	}
	return Removal{Gone: true, goneWithKind: true}
}

// removeIn removes an object in the version in which it is served, as far as discovery
// is known.
func (a *Remover) removeIn(ctx context.Context, e *v1alpha1.ManagedResourceStatus) Removal {
	if why := access.ObjectOutOfScope(a.Allowed, object.IdentityOf(e)); why != nil {
		if a.Orphans {
			return Removal{Gone: true, unmanaged: true, kept: true}
		}
		why.Message = "is to be removed, and is not: " + why.Message
		return Removal{outOfScope: why, unsure: true}
	}
	mapping, err := a.Destination.MappingInAnyVersion(ctx, object.GVKOf(e))
	switch {
	case meta.IsNoMatchError(err):
		return Removal{missing: true}
	case err != nil:
		return Removal{Err: err, unsure: true}
	}
	key := trigger.ObjectKey{Cluster: a.Destination.Name(), GVR: mapping.GVR, Namespace: e.Namespace, Name: e.Name}
	if a.Watched {
		a.Index.ExpectRemoval(a.Owner, key)
	}
	var done Removal
	// Another client may write to the object between the read and the deletion.
	_ = retry.OnError(retry.DefaultRetry, apierrors.IsConflict, func() error {
		done = a.removeLive(ctx, key, e)
		return done.Err
	})
	done.key = key
	if done.Gone || done.held != "" { // what is held may come back into the manifest
		a.Index.Forget(a.Owner, key)
	}
	return done
}

func (a *Remover) removeLive(ctx context.Context, key trigger.ObjectKey, e *v1alpha1.ManagedResourceStatus) Removal {
	live, err := a.Get(ctx, key)
	switch {
	case err != nil && object.KindGone(err):
		a.Destination.Invalidate(key.GVR.Group)
		return Removal{missing: true}
	case err != nil:
		return a.removeUnread(ctx, key, e, err)
	case live == nil:
		return Removal{Gone: true, Absent: true}
	case a.exclusions.wants(live):
		return Removal{Gone: true}
	case !a.Owns(live, e):
		return Removal{Gone: true, kept: apply.Keeps(live)}
	}
	done := a.discard(ctx, key, live, e)
	if apierrors.IsNotFound(done.Err) && object.IsObject(done.Err, key.Name) { // another client was faster
		return Removal{Gone: true}
	}
	done.kept, done.disclosure = apply.Keeps(live), disclosureOf(e, live)
	return done
}

// disclosureOf decides about values of an object that the manifest does not have any more.
func disclosureOf(e *v1alpha1.ManagedResourceStatus, live *unstructured.Unstructured) ownership.Disclosure {
	return ownership.Disclose(ownership.Sensitivity(e.Sensitive), false, false).With(live)
}

// discard deletes or releases an object that is ours.
func (a *Remover) discard(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured, e *v1alpha1.ManagedResourceStatus) Removal {
	id := object.IdentityIn(live)
	stays := a.Orphans || apply.AsksToStay(live) || a.exclusions.holds(id)
	switch {
	case live.GetDeletionTimestamp() != nil && stays: // another client deletes it
		return Removal{Gone: true}
	case live.GetDeletionTimestamp() != nil:
		return Removal{
			Deleted: true, waitsFor: deletion.WaitsFor(live), blocked: deletion.Blocked(live, time.Now()),
			version: live.GetResourceVersion(), blockedAt: deletion.BlockedAt(live),
		}
	}
	if err := a.stale(); err != nil {
		return Removal{held: "is not removed now: " + err.Error()}
	}
	if stays {
		return a.release(ctx, key, live)
	}
	if glass := a.AnswerTo(e, nil, live); breakglass.Exempts(glass.Status, time.Now()) {
		l := plan.Exemption(glass.Status)
		return Removal{glass: glass, held: "is to be removed, and is not before its break-glass ends: " + l.Why}
	}
	if inIt, unsure := a.exclusions.unsureIn(id); unsure {
		return Removal{held: fmt.Sprintf("is not removed before it is known whether %s, which would be deleted with it, is to be kept", inIt)}
	}
	if others, err := a.Finder.AllOwners(ctx, key, live); err != nil {
		return Removal{Err: err}
	} else if len(others) > 0 {
		return a.handOver(ctx, key, live, others)
	}
	return a.deleteUnlessReceived(ctx, key, live, object.IdentityOf(e))
}

// handOver releases an object that others own, and enqueues them. If they only claim the object, or have not applied
// it yet, the first of them gets our fields: without them the object might be empty, or refused, until that owner
// applies it, and an apply removes those that its manifest does not have.
func (a *Remover) handOver(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured, others []owners.CoOwner) Removal {
	done := Removal{}
	if owners.OnlyClaimed(live, others) {
		done = a.transfer(ctx, key, live, others[0].Manager)
	} else if done = a.releaseShared(ctx, key, live); apierrors.IsInvalid(done.Err) {
		done = a.release(ctx, key, live)
	}
	if done.unmanaged {
		done.unmanaged, done.Released = false, true
	}
	if done.Released {
		for _, other := range others {
			if other.Manager != a.Installation.FieldManager(other.Name) {
				continue // its operator observes it at its next attempt
			}
			a.Trigger.EnqueueAll(trigger.Owner{Name: other.Name})
		}
	}
	return done
}

// deleteRead deletes the object that was read, unless what it holds has to stay. It releases an object that the API server never
// deletes.
func (a *Remover) deleteRead(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured) Removal {
	done := Removal{}
	if object.IdentityIn(live).IsUndeletable() {
		done = a.release(ctx, key, live)
		done.note = "the API server never deletes it"
		return done
	}
	if object.IdentityIn(live).IsContainer() {
		inside, err := a.Contents(ctx, live)
		if err != nil {
			return Removal{held: "is not removed before all is known that it holds: " + err.Error()}
		}
		if inside.Kept.Count > 0 {
			done = a.release(ctx, key, live)
			done.note = "it holds " + inside.Kept.String() + " with the annotation keep"
			return done
		}
		if why := inside.Blocked(a.UnmanagedContents); why != "" {
			return Removal{held: "is not removed, because " + why + ". Remove them first, or set spec.deletionPolicy or spec.prune to leave it in place", occupied: true}
		}
		if inside.Unmanaged.Count > 0 {
			done.note = fmt.Sprintf("with %d unmanaged objects: %s", inside.Unmanaged.Count, inside.Unmanaged)
		}
	}
	if done.Err = a.Delete(ctx, key, live); done.Err != nil {
		return done
	}
	done.Deleted, done.waitsFor, done.blocked = true, deletion.WaitsFor(live), deletion.Blocked(live, time.Now())
	return done
}
