package prune

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	// Released reports that our fields were released and others still own it.
	Released bool
	// unmanaged reports that it was left in place, unmanaged.
	unmanaged bool
	// missing reports that its kind is not served, in no version.
	missing bool
	// kept reports that the object itself asks to be left in place; unsure, that this is
	// not known.
	kept, unsure bool
	// outOfScope is why no request is sent about it; nil if one is.
	outOfScope *object.Failure
	// held is why it is not removed before something else is.
	held string
	// key is the object.
	key trigger.ObjectKey
	// glass is the answer to its break-glass annotations.
	glass breakglass.Answer
	Err   error
	// disclosure is the decision about its values.
	disclosure ownership.Disclosure
}

// Remover removes objects of one VidraResource: those that left the manifest, or all of them.
type Remover struct {
	*apply.Applier
	Plan *plan.Planner
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
	return done
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
	case err != nil && object.KindGone(err, key.Name):
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
	return ownership.Disclose(ownership.Sensitivity(e.Sensitive), ownership.SensitivityOf(live), false)
}

// discard deletes or releases an object that is ours.
func (a *Remover) discard(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured, e *v1alpha1.ManagedResourceStatus) Removal {
	id := object.IdentityIn(live)
	stays := a.Orphans || apply.AsksToStay(live) || a.exclusions.holds(id)
	switch {
	case live.GetDeletionTimestamp() != nil && stays: // another client deletes it
		return Removal{Gone: true}
	case live.GetDeletionTimestamp() != nil:
		return Removal{Deleted: true, waitsFor: deletion.WaitsFor(live), blocked: deletion.Blocked(live, time.Now())}
	case stays:
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
	return a.deleteRead(ctx, key, live)
}

// handOver releases an object that others own, and enqueues them. If an owner only claims the
// object, or has not applied it yet, our fields stay in it, unmanaged: without them the object
// might be empty, or refused, until that owner applies it.
func (a *Remover) handOver(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured, others []owners.CoOwner) Removal {
	done := Removal{}
	if owners.OnlyClaimed(live, others) {
		done = a.release(ctx, key, live)
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

// deleteRead deletes the object that was read.
func (a *Remover) deleteRead(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured) Removal {
	if err := a.Delete(ctx, key, live); err != nil {
		return Removal{Err: err}
	}
	return Removal{Deleted: true, waitsFor: deletion.WaitsFor(live), blocked: deletion.Blocked(live, time.Now())}
}
