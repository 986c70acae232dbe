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

// end is the end of the removal of one object.
type end int

// Ends of removals.
const (
	skipped           end = iota // the reconcile was interrupted, and the next one decides
	absent                       // the object is absent
	notOurs                      // others own or delete it, or the manifest has it in another API group
	released                     // our fields were released, and others still own it
	unmanaged                    // it was left in place, unmanaged
	goneWithKind                 // its kind was deleted, and the object with it
	goneWithNamespace            // the removal was forbidden, because its namespace is absent
	deleted                      // the deletion was accepted now
	beingDeleted                 // the deletion was accepted before, as the read object shows
	blocked                      // like beingDeleted, but the deletion has waited for long
	stillThere                   // the deletion was accepted before, and its watch shows the object, which is unread
	kindUnserved                 // its kind is unserved, in every version
	outOfScope                   // the scope of Vidra excludes it, so that all requests about it are refused
	delayed                      // a decision delays the removal
	failed                       // a request failed, and the object may have to stay
	deletionFailed               // a request failed, and the object is to be deleted
)

// ceased reports that the object has ceased to be ours, and leaves the inventory.
func (e end) ceased() bool {
	switch e {
	case absent, notOurs, released, unmanaged, goneWithKind, goneWithNamespace:
		return true
	}
	return false
}

// undecided reports that the object may have to stay, and its container with it.
func (e end) undecided() bool {
	switch e {
	case kindUnserved, outOfScope, delayed, failed:
		return true
	}
	return false
}

// failure is the outcome of a failed request about an object that may have to stay.
func failure(err error) removal { return removal{end: failed, err: err} }

// removal is the outcome of the removal of one object.
type removal struct {
	end end
	// err is the error of a failed removal.
	err error
	// key is the object; empty if its resource is unknown.
	key trigger.ObjectKey
	// kept reports that the object itself asks to be left in place. It is independent of the end: a foreign object, a delayed removal and a failed
	// release keep the container, too.
	kept bool
	// decision is the decision about the object. Its text is the problem of a delayed object, and otherwise the note of the Event about the removal.
	decision policy.Removal
	// glass is the answer to the break-glass annotations of a delayed object.
	glass breakglass.Answer
	// outOfScope is the problem of an object out of scope.
	outOfScope *object.Failure
	// waitsFor is the known obstacle of the end of an object that is being deleted.
	waitsFor string
	// version is the resourceVersion of an object with the end beingDeleted or blocked, and blockedAt is when its deletion counts as blocked, or zero.
	version   string
	blockedAt time.Time
	// former is the outcome of a failed attempt to remove it as the account that the spec named before, or empty.
	former string
	// disclosure is the decision about its values.
	disclosure ownership.Disclosure
}

// Remover removes objects of one VidraResource: those that left the manifest, or all of them.
type Remover struct {
	Applier *apply.Applier
	Plan    *plan.Planner
	// FormerClient returns the client of an account that the VidraResource named before, and its user.
	FormerClient func(ctx context.Context, account string, at access.Destination) (as dynamic.Interface, user string, why *object.Failure)
	// Stale returns an error if the VidraResource of the cache is no reason for a removal; nil if the API server has the same
	// one.
	Stale func(ctx context.Context) error
	// Replaced reports that the destination may be another cluster than at the begin of the reconcile. It is asked about each object after its read:
	// the deletion of an object that was read before fails in another cluster, by its UID.
	Replaced func() bool
	// Interrupted reports that no further removal begins.
	Interrupted func() bool
	// stale is Stale, asked once a second.
	stale func() (struct{}, error)
	// receivers returns the other VidraResources that have one of the objects in their manifests, renewed every few seconds.
	receivers func() (map[object.Identity][]owners.Receiver, error)
	// exclusions are the objects that the removal must not delete.
	exclusions *exclusions
	// kinds are the answers about the kinds of the objects.
	kinds *access.Mappings
}

// remove deletes an object, releases our fields in it, or leaves it for now, as policy.Decide says: only an object without another owner is
// deleted. An object that is not ours at this moment is unchanged.
func (a *Remover) remove(ctx context.Context, e *v1alpha1.ManagedResourceStatus) removal {
	done := a.removeIn(ctx, e)
	if done.end == kindUnserved && done.key.Name != "" { // discovery was behind
		done = a.removeIn(ctx, e)
	}
	if e.RemoveAs != "" && lacksRights(done.err) {
		done = a.removeAsFormer(ctx, e, done)
	}
	since := a.Plan.State.Objects.ByID[object.IdentityOf(e)].Departure.KindGoneSince
	if done.end == kindUnserved && !since.IsZero() && a.Plan.Now.Sub(since) >= plan.KindGoneTimeout {
		return a.removeMissing(ctx, e)
	}
	return done
}

// removeMissing returns the outcome for an object whose kind is unserved, for longer than an API server takes to start. The
// object exists as long as the CustomResourceDefinition of its kind does, and was deleted with it. The objects of an extension
// API server exist wherever that keeps them.
func (a *Remover) removeMissing(ctx context.Context, e *v1alpha1.ManagedResourceStatus) removal {
	kind := policy.UnservedKind{GVK: object.GVKOf(e), Aggregated: e.Aggregated}
	if !a.Applier.Orphans {
		kind.Definition, kind.Unknown = a.kinds.DefinitionOf(ctx, a.Applier.Destination, kind.GVK.GroupKind())
		if mapping, err := a.kinds.InAnyVersion(ctx, a.Applier.Destination, kind.GVK); err == nil && mapping.Namespaced != (e.Namespace != "") {
			kind.Definition = "" // it is another one: the scope of a CustomResourceDefinition never changes
		}
	}
	switch decision := kind.Decide(a.Applier.Orphans); {
	case decision.Keeps():
		return removal{end: unmanaged}
	case decision.Waits():
		return removal{end: delayed, decision: decision}
	}
	return removal{end: goneWithKind}
}

// removeIn removes an object in its served version, as far as discovery is known.
func (a *Remover) removeIn(ctx context.Context, e *v1alpha1.ManagedResourceStatus) removal {
	if why := access.ObjectOutOfScope(a.Applier.Settings.Allowed, object.IdentityOf(e)); why != nil {
		if a.Applier.Orphans {
			return removal{end: unmanaged, kept: true}
		}
		why.Message = "is to be removed, and is not: " + why.Message
		return removal{end: outOfScope, outOfScope: why}
	}
	mapping, err := a.kinds.InAnyVersion(ctx, a.Applier.Destination, object.GVKOf(e))
	switch {
	case meta.IsNoMatchError(err):
		return removal{end: kindUnserved}
	case err != nil:
		return failure(err)
	}
	key := trigger.ObjectKey{Cluster: a.Applier.Destination.Name(), GVR: mapping.GVR, Namespace: e.Namespace, Name: e.Name}
	var done removal
	leave := a.Applier.Slot(ctx, key)
	defer func() { leave(done.err) }()
	if a.Interrupted() { // while it waited
		return removal{end: skipped}
	}
	if a.Applier.Settings.Watched {
		a.Applier.Index.ExpectRemoval(a.Applier.Settings.Claimant.Owner, key)
	}
	// Another client may write to the object between the read and the deletion.
	_ = retry.OnError(retry.DefaultRetry, apierrors.IsConflict, func() error {
		done = a.removeLive(ctx, key, e)
		return done.err
	})
	done.key = key
	if done.end.ceased() || done.end == delayed { // a delayed object may return to the manifest
		a.Applier.Index.Forget(a.Applier.Settings.Claimant.Owner, key)
	}
	return done
}

func (a *Remover) removeLive(ctx context.Context, key trigger.ObjectKey, e *v1alpha1.ManagedResourceStatus) removal {
	live, err := a.Applier.Get(ctx, key)
	switch {
	case err != nil && object.KindGone(err):
		a.Applier.Destination.Invalidate(key.GVR.Group)
		a.kinds.Forget(object.GVKOf(e))
		return removal{end: kindUnserved}
	case err != nil:
		return a.removeUnread(ctx, key, e, err)
	case live == nil:
		return removal{end: absent}
	}
	done := a.discard(ctx, key, live, e)
	if object.IsAbsent(done.err, key.Name) { // another client was faster
		return removal{end: absent}
	}
	done.disclosure = disclosureOf(e, live)
	return done
}

// disclosureOf decides about values of an object that has left the manifest.
func disclosureOf(e *v1alpha1.ManagedResourceStatus, live *unstructured.Unstructured) ownership.Disclosure {
	return ownership.Disclose(ownership.Sensitivity(e.Sensitive), false, false).With(live)
}

// discard deletes or releases an object, or leaves it, by the decision about it.
func (a *Remover) discard(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured, e *v1alpha1.ManagedResourceStatus) removal {
	about := a.departure(key, live, e)
	decision, err := policy.Decide(ctx, about.of, about)
	done := removal{}
	switch ends := live.GetDeletionTimestamp() != nil; {
	case err != nil:
		done = failure(err)
	case ends && decision.Keeps(): // another client deletes it
		done.end = notOurs
	case ends:
		done = removal{end: beingDeleted, waitsFor: ending.WaitsFor(live), version: live.GetResourceVersion(), blockedAt: ending.BlockedAt(live)}
		if ending.Blocked(live, time.Now()) {
			done.end = blocked
		}
	default:
		done = a.carryOut(ctx, about, decision)
	}
	done.kept = decision.Reason != policy.Wanted && policy.KeptByAnnotation(live)
	if done.end == failed && decision.Removes() { // otherwise its container would take it along
		done.end = deletionFailed
	}
	return done
}

// carryOut sends the requests of a decision.
func (a *Remover) carryOut(ctx context.Context, about *departure, decision policy.Removal) (done removal) {
	key, live := about.key, about.of.Live
	switch {
	case decision.Waits():
		done = removal{end: delayed, glass: about.glass}
	case decision.Removes():
		if done = failure(a.Applier.Delete(ctx, key, live)); done.err == nil {
			done = removal{end: deleted, waitsFor: ending.WaitsFor(live)}
		}
	case decision.Reason == policy.Wanted, decision.Reason == policy.NotOwned:
		done = removal{end: notOurs}
	case decision.Reason == policy.Shared: // handOver sets the decision: it may be another one
		return a.handOver(ctx, about, decision.Owners)
	case decision.Reason == policy.Moved:
		receiver := decision.Receiver
		manager := v1alpha1.InstallationOf(receiver.VidraResource).FieldManager(receiver.VidraResource.Name)
		done = a.retry(a.transfer(ctx, key, live, manager), owners.CoOwner{Name: receiver.VidraResource.Name, Manager: manager})
	default:
		done = a.release(ctx, key, live)
	}
	done.decision = decision
	return done
}

// handOver releases an object that others own, and retries their applies. If they only claim the object, or are still to apply
// it, the first of them gets our fields: without them the object might be empty, or refused, until that owner
// applies it, and an apply removes those that its manifest lacks.
func (a *Remover) handOver(ctx context.Context, about *departure, others []owners.CoOwner) removal {
	done, key, live := removal{}, about.key, about.of.Live
	if owners.OnlyClaimed(live, others) {
		done = a.transfer(ctx, key, live, others[0].Manager)
	} else if done = a.releaseShared(ctx, about); apierrors.IsInvalid(done.err) && !object.Denied(done.err) { // the object needs them
		if done = a.release(ctx, key, live); done.end == unmanaged { // the others still own it
			done.end = released
		}
	}
	return a.retry(done, others...)
}

// retry has the other owners of a released object attempt its apply at once, ahead of their watch, which may be behind.
func (a *Remover) retry(done removal, others ...owners.CoOwner) removal {
	if done.end != released {
		return done
	}
	for _, other := range others {
		if other.Manager == a.Applier.Settings.Claimant.Installation.FieldManager(other.Name) { // otherwise the watch of its operator shows the release
			a.Applier.Trigger.EnqueueRetry(trigger.Owner{Name: other.Name})
		}
	}
	return done
}
