package policy

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/breakglass"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
)

// Reason names the rule that decides about a removal. Remove has none.
type Reason int

// Reasons to keep an object.
const (
	// Wanted is the reason of an object that the manifest names in another API group.
	Wanted Reason = iota + 1
	// NotOwned is the reason of an object that the VidraResource does not own.
	NotOwned
	// Orphaned is the reason of spec.prune and spec.deletionPolicy.
	Orphaned
	// Annotated is the reason of the annotation keep.
	Annotated
	// HoldsKept is the reason of a container with an object that is kept.
	HoldsKept
	// Shared is the reason of an object with other owners, which keep it.
	Shared
	// Moved is the reason of an object in the manifest of another VidraResource, which gets the fields.
	Moved
	// Mentioned is the reason of an object that may be in the manifest of another VidraResource. It stays, unmanaged.
	Mentioned
	// Undeletable is the reason of an object that the API server never deletes.
	Undeletable
)

// Reasons to wait.
const (
	// Stale is the reason of a VidraResource that changed since the reconcile began.
	Stale Reason = iota + 100
	// Exempt is the reason of break-glass.
	Exempt
	// Undecided is the reason of a container with an undecided object.
	Undecided
	// ReceiversUnknown is the reason of VidraResources whose LIST or read fails, and that may have the object in their manifests.
	ReceiversUnknown
	// ClusterUnknown is the reason of a receiver whose destination may be the same cluster.
	ClusterUnknown
	// RightsUnknown is the reason of a receiver whose rights are unreadable.
	RightsUnknown
	// Moving is the reason of an object that its receiver will apply.
	Moving
	// Unreceived is the reason of an object that has just left the manifest of its receiver, which may be another move.
	Unreceived
	// ContentsUnknown is the reason of a container whose objects cannot be listed.
	ContentsUnknown
	// Occupied is the reason of a container with objects that a user has to remove first.
	Occupied
	// Unserved is the reason of an object whose kind exists and is unserved; KindUnknown, of one whose kind may exist.
	Unserved
	KindUnknown
)

// Removal is the decision about the removal of an object: Remove, Keep or Wait. The zero Removal is none of them.
type Removal struct {
	verdict verdict
	Reason  Reason
	// Text is for users. Of Wait, it follows the name of the object; of the others, it is the note of the Event.
	Text string
	// Cause is the part of Text that is the same for each reader.
	Cause string
	// Until is the latest end of Wait; zero if an event or a retry ends it.
	Until time.Time
	// Occupied is the *owners.Occupied of a container with objects that are to be removed first; else nil.
	Occupied error
	// Owners are the other owners of a Shared object.
	Owners []owners.CoOwner
	// Receiver is the VidraResource that has the object in its manifest, or nil.
	Receiver *owners.Receiver
}

type verdict int

const (
	undecided verdict = iota
	remove
	keep
	wait
)

// Remove is the decision to delete an object. The note is for the Event.
func Remove(note string) Removal { return Removal{verdict: remove, Text: note} }

// Keep is the decision that an object stays.
func Keep(reason Reason, note string) Removal {
	return Removal{verdict: keep, Reason: reason, Text: note}
}

// Wait is the decision to decide later: text is for users, with the cause as its last part, and until is the latest end; zero if an event or a
// retry ends it.
func Wait(reason Reason, text, cause string, until time.Time) Removal {
	cause = display.ErrorText(cause)
	return Removal{verdict: wait, Reason: reason, Text: text + cause, Cause: cause, Until: until}
}

// Removes reports whether the object is deleted.
func (r Removal) Removes() bool { return r.verdict == remove }

// Keeps reports whether the object stays.
func (r Removal) Keeps() bool { return r.verdict == keep }

// Waits reports whether the decision is made later.
func (r Removal) Waits() bool { return r.verdict == wait }

func (r Removal) with(receiver *owners.Receiver) Removal {
	r.Receiver = receiver
	return r
}

// Departure is an object that is to be removed, as the API server has it.
type Departure struct {
	Live *unstructured.Unstructured
	// Wanted reports that the manifest has the object in another API group; Owned, that the VidraResource owns the object.
	Wanted, Owned bool
	// Orphans reports that spec.prune or spec.deletionPolicy keeps all objects.
	Orphans bool
	// UnmanagedContents is the policy for unmanaged objects in a container.
	UnmanagedContents v1alpha1.UnmanagedContents
	// Members are the decisions about the objects that are deleted with a container.
	Members *Members
	Now     time.Time
	// MoveEnds is the time until which the object waits for its receiver.
	MoveEnds time.Time
	// ContentEnds is the time until which the object waits for a receiver without content, or without the Namespace of its account. Other receivers
	// that leave meanwhile leave it as it is.
	ContentEnds time.Time
	// Settles is the time until which the object waits because its receiver has just left; zero if it had none.
	Settles time.Time
}

// Facts are found out while [Decide] runs: each may cost requests, and most decisions need few of them.
type Facts interface {
	// Stale returns an error if the VidraResource has changed since the decision to remove the object, or may have.
	Stale(ctx context.Context) error
	// BreakGlass returns the answer to the break-glass annotations of the object, or nil.
	BreakGlass() *v1alpha1.BreakGlassStatus
	// Owners returns the other VidraResources that own the object.
	Owners(ctx context.Context) ([]owners.CoOwner, error)
	// Receivers returns the VidraResources that have the object in their manifests, or may have, the most certain ones first.
	Receivers(ctx context.Context) (iter.Seq[owners.Receiver], error)
	// MayTake reports whether a receiver may apply the object.
	MayTake(ctx context.Context, receiver *owners.Receiver) (bool, error)
	// Contents returns the contents of a Namespace or CustomResourceDefinition.
	Contents(ctx context.Context) (owners.Inside, error)
}

// AsksToStay reports whether an object has the annotation keep.
func AsksToStay(live *unstructured.Unstructured) bool {
	return live.GetAnnotations()[v1alpha1.KeepAnnotation] == "true"
}

// KeptByAnnotation reports whether an object has the annotation keep, and can stay: no client has deleted it.
func KeptByAnnotation(live *unstructured.Unstructured) bool {
	return AsksToStay(live) && live.GetDeletionTimestamp() == nil
}

// Decide decides about the removal of an object. The rules are in the order of the function; the first that is not Remove decides. An
// object that is being deleted has only the rules that keep it. It fails if the owners are unreadable.
func Decide(ctx context.Context, d Departure, facts Facts) (Removal, error) {
	stays := d.stays()
	if stays.Reason == Wanted || stays.Reason == NotOwned || d.Live.GetDeletionTimestamp() != nil {
		return stays, nil
	}
	if err := facts.Stale(ctx); err != nil {
		return Wait(Stale, "is not removed now: ", err.Error(), time.Time{}), nil
	}
	if stays.Keeps() {
		return stays, nil
	}
	if answer := facts.BreakGlass(); breakglass.Exempts(answer, d.Now) {
		return Wait(Exempt, "is to be removed, and is not before its break-glass ends: ", Exemption(answer), answer.Until.Time), nil
	}
	if member, undecided := d.Members.Undecided.In(object.IdentityIn(d.Live)); undecided {
		waits := Wait(Undecided, fmt.Sprintf("is not removed before it is known whether %s, which would be deleted with it, is to be kept", member), "", time.Time{})
		waits.Cause = member.String()
		return waits, nil
	}
	switch others, err := facts.Owners(ctx); {
	case err != nil:
		return Removal{}, err
	case len(others) > 0:
		shared := Keep(Shared, "")
		shared.Owners = others
		return shared, nil
	}
	return DecideUnshared(ctx, d, facts), nil
}

// stays returns Keep for an object that stays in any case.
func (d Departure) stays() Removal {
	switch {
	case d.Wanted:
		return Keep(Wanted, "")
	case !d.Owned:
		return Keep(NotOwned, "")
	case d.Orphans:
		return Keep(Orphaned, "")
	case AsksToStay(d.Live):
		return Keep(Annotated, "")
	}
	if member, holds := d.Members.Kept.In(object.IdentityIn(d.Live)); holds {
		kept := Keep(HoldsKept, "")
		kept.Cause = "holds " + member.String() + owners.KeptMembers
		return kept
	}
	return Remove("")
}

// DecideUnshared decides about the removal of an object whose only owner is the VidraResource, with the last rules of [Decide]: an object that
// moved to another manifest stays, and so does a container for its contents.
func DecideUnshared(ctx context.Context, d Departure, facts Facts) Removal {
	receivers, err := facts.Receivers(ctx)
	if err != nil {
		return Wait(ReceiversUnknown, "is not removed before it is known whether another VidraResource has it in its manifest: ", err.Error(), time.Time{})
	}
	for receiver := range receivers {
		if decision := d.receivedBy(ctx, facts, &receiver); !decision.Removes() {
			return decision
		}
	}
	decision := d.unreceived(ctx, facts)
	if decision.Removes() && !d.Settles.IsZero() {
		return Wait(Unreceived, Settling, "", d.Settles)
	}
	return decision
}

// Settling is the text about an object whose removal waits for a moment, because the write that gives it to a manifest may be about to come.
const Settling = "is removed unless another VidraResource, or another part of the manifest, has it"

// receivedBy decides about the removal of an object that a VidraResource has in its manifest, or may have: Remove if that may not apply it, or
// has no content, or no Namespace of its account, for longer than a move takes.
func (d Departure) receivedBy(ctx context.Context, facts Facts, receiver *owners.Receiver) Removal {
	name, waits, awaits := receiver.VidraResource.Name, d.Now.Before(d.MoveEnds), d.Now.Before(d.ContentEnds)
	switch may, err := facts.MayTake(ctx, receiver); {
	case err == nil && !may, access.IsNoNamespace(err) && !awaits:
		return Remove("")
	case err != nil && (receiver.Unidentified == nil || access.IsNoNamespace(err)):
		until := time.Time{}
		if access.IsNoNamespace(err) {
			until = d.ContentEnds
		}
		return Wait(RightsUnknown, fmt.Sprintf("is not removed before it is known whether VidraResource %s, whose manifest has it, may apply it: ", name), err.Error(), until).with(receiver)
	}
	has, unread := "has", fmt.Sprintf("is not removed before it is known whether VidraResource %s has it in its manifest", name)
	if receiver.Unknown != nil {
		has = "may have"
	}
	switch server := receiver.VidraResource.Spec.Destination.Server; {
	case receiver.Empty && !awaits:
		return Remove("")
	case receiver.Empty: // its cluster is no matter before it has content
		return Wait(ReceiversUnknown, unread, "", d.ContentEnds).with(receiver)
	case receiver.Unidentified != nil && waits:
		return Wait(ClusterUnknown, fmt.Sprintf("is not removed before it is known whether the destination %s of VidraResource %s, which %s an object of this name in its manifest, "+
			"is the same cluster: ", server, name, has), receiver.Unidentified.Error(), d.MoveEnds).with(receiver)
	case receiver.Unidentified != nil:
		return Keep(Mentioned, fmt.Sprintf("VidraResource %s %s an object of this name in its manifest, and it is not known whether its destination %s is the same cluster",
			name, has, server)).with(receiver)
	case receiver.Unknown != nil: // the error is for the users of the receiver
		return Wait(ReceiversUnknown, unread, "", time.Time{}).with(receiver)
	case waits:
		return Wait(Moving, fmt.Sprintf("is in the manifest of VidraResource %s, and is released when that applies it", name), "", d.MoveEnds).with(receiver)
	case receiver.Mentioned: // its manifest may lack the object, so that it gets no fields
		return Keep(Mentioned, fmt.Sprintf("VidraResource %s mentions it, and its manifest cannot be read", name)).with(receiver)
	}
	return Keep(Moved, "").with(receiver)
}

// unreceived decides about an object that no other VidraResource takes.
func (d Departure) unreceived(ctx context.Context, facts Facts) Removal {
	id := object.IdentityIn(d.Live)
	if id.IsUndeletable() {
		return Keep(Undeletable, "the API server never deletes it")
	}
	if !id.IsContainer() {
		return Remove("")
	}
	if member, holds := d.Members.Needed.In(id); holds {
		waits := Wait(Occupied, "is not removed, because ", fmt.Sprintf("it holds %s, which stays in the manifest", member), time.Time{})
		waits.Text += fmt.Sprintf(". Remove the objects in it from the manifest, too, or put the %s back", id.Kind)
		return waits
	}
	inside, err := facts.Contents(ctx)
	switch keeps, occupied := inside.Keeps(), inside.Blocked(d.UnmanagedContents); {
	case err != nil:
		return Wait(ContentsUnknown, "is not removed before all is known that it holds: ", err.Error(), time.Time{})
	case keeps != nil:
		kept := Keep(HoldsKept, keeps.Error())
		kept.Cause = strings.TrimPrefix(keeps.Error(), "it ")
		return kept
	case occupied != nil:
		until := time.Time{}
		if occupied.Received && d.Now.Before(d.ContentEnds) { // the rights of the receiver may be unknown until then
			until = d.ContentEnds
		}
		waits := Wait(Occupied, "is not removed, because ", occupied.Error(), until)
		waits.Occupied = occupied
		waits.Text += ". Remove them first, or set spec.deletionPolicy or spec.prune to leave it in place"
		return waits
	case inside.Unmanaged.Count > 0:
		return Remove(fmt.Sprintf("with %d unmanaged objects: %s", inside.Unmanaged.Count, inside.Unmanaged))
	}
	return Remove("")
}

// UnservedKind is the kind of an object that is to be removed, and which is unserved in every version.
type UnservedKind struct {
	GVK schema.GroupVersionKind
	// Definition names the definition of the kind, as the CustomResourceDefinition of that name; empty if absent. Unknown is the error
	// that leaves Definition unknown.
	Definition string
	Unknown    error
	// Aggregated reports that an extension API server served the kind. Its objects exist as long as that keeps them.
	Aggregated bool
}

// Decide decides about an object of the kind: it is gone if its kind is, and Remove has nothing to delete then.
func (k UnservedKind) Decide(orphans bool) Removal {
	const advice = ": serve the kind again, or set spec.deletionPolicy to Orphan to leave the object in place"
	waits := func(reason Reason, text string, args ...any) Removal {
		return Wait(reason, "is not removed, because its kind is not served"+fmt.Sprintf(text, args...)+advice, "", time.Time{})
	}
	switch {
	case orphans:
		return Keep(Orphaned, "")
	case k.Unknown != nil:
		return waits(KindUnknown, ", and it is not known whether the kind still exists: %v", k.Unknown)
	case k.Definition != "":
		return waits(Unserved, " in any version, and %s exists", k.Definition)
	case k.Aggregated:
		return waits(Unserved, ": the APIService %s.%s of an extension API server is missing", k.GVK.Version, k.GVK.Group)
	}
	return Remove("")
}
