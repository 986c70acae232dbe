package plan

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/contention"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Object is all that is known of one object between two reconciles. It is made by
// [Objects.Track], and dropped by [Objects.ForgetUnused].
type Object struct {
	ID object.Identity
	// Desired is the object as the manifest has it; nil if the manifest lacks it, or
	// if its kind is unserved.
	Desired *desired.Object
	// Entry is the inventory entry of the object; nil if the inventory lacks it.
	Entry *v1alpha1.ManagedResourceStatus
	// Sealed is how the status shows the entry if the object has values that stay hidden;
	// nil if it is not known to have any.
	Sealed *SealedEntry
	// Problem is the known fault of the object, or nil.
	Problem *object.Failure
	// Departure is zero while the manifest has the object.
	Departure Departure
	Attempts  Attempts
	Edits     Edits
	Seen      Seen
	// Remarks are the warnings for users about the applied object.
	Remarks Remarks
	// Turn is the turn of the writer of the object.
	Turn Turn
}

// Attempts is the knowledge from attempts to apply or remove an object.
type Attempts struct {
	// Refused is the last refusal of an apply or removal, if the same attempt would be refused again; nil otherwise.
	Refused *Refused
	// Retry is the next attempt while the object has a problem. [Planner.NoteFailures] sets and ends it.
	Retry Retry
	// MissingRights are the rights that the last failed request may have lacked.
	MissingRights []access.Right
	// ReleaseAsked reports that its other owner was enqueued to release the object, at the last attempt or at one in a row before.
	ReleaseAsked bool
	// LastApply is when the last apply of this process that succeeded began, or zero.
	LastApply time.Time
	// Unlisted is the cause to read the object before the next apply, because a failed one of a changed manifest has met an edit; else nil.
	Unlisted *trigger.Cause
}

// Edits is the knowledge about edits of an object by other writers.
type Edits struct {
	// Drift is set while the object stays as another writer changed it.
	Drift *Drift
	// Contention counts the reverts of the last minute, if any.
	Contention *contention.Tracker
	// Additions describes the additions of users that stay in the object.
	Additions string
	// Delayed reports that the loop of objects reverts the object, which is contended, at a later time.
	Delayed bool
}

// Seen is the knowledge about an object in its cluster.
type Seen struct {
	// Sighting is the knowledge about its existence.
	Sighting Sighting
	// Foreign reports that the object exists, that another client created it, and that its annotation has Vidra leave it as it is.
	Foreign bool
	// BackstopSuspect is the version of the object in which a LIST or the last comparison found it different; empty if it was
	// absent, and nil if it is unsuspected.
	BackstopSuspect *string
	// observation is the observation of the applied object by its watch.
	observation observation
	// answer is the health in the last answer of the API server; zero if a watch shows it.
	answer healthAnswer
}

// Departure is the departure of an object from the manifest.
type Departure struct {
	// At is since when the manifest lacks the object, as far as this process knows.
	At time.Time
	// Awaits is since when the object waits for a receiver without content, or without the Namespace of its account; zero before the first one.
	Awaits time.Time
	// Lasts reports that the object existed when it left the manifest, and that its own controller does not remove it, as far as this process
	// knows: then it exists until Vidra deletes it.
	Lasts bool
	// Received reports that the last attempt to remove the object found it in the manifest of another VidraResource, or possibly there.
	Received bool
	// KindGoneSince is since when its kind is unserved; zero while it is served.
	KindGoneSince time.Time
	// Note is the note of the Event about its removal.
	Note string
}

// Remarks are warnings for users about an object, which change nothing.
type Remarks struct {
	// Warnings are the warnings of the API server about the object.
	Warnings []string
	// Altered are the fields that the last apply left with another value than the manifest says.
	Altered Altered
	// Known reports that this process has applied the object, or left it, so that the warnings about it in the status are outdated.
	Known bool
	// Kept are the fields that the manifest dropped and that other field managers keep.
	Kept []KeptFields
}

// Altered are fields of an object that a webhook, a policy or the API server stored with another value than the manifest says, and the warnings about
// them.
type Altered struct {
	// Fields is the signature of the fields.
	Fields uint64
	Texts  []string
}

// KeptFields are fields that the manifest dropped and that one other field manager keeps, and the warning about them.
type KeptFields struct {
	Paths ownership.Paths
	Text  string
}

// WasSensitive reports whether the object had the annotation that withholds its values, as far as the inventory has it.
func (o *Object) WasSensitive() ownership.Sensitivity {
	return ownership.Sensitivity(o.Entry != nil && o.Entry.Sensitive)
}

// unused reports whether nothing is known of the object that a later reconcile needs.
func (o *Object) unused() bool {
	return o.Desired == nil && o.Entry == nil && o.Problem == nil && o.Edits.Drift == nil && o.Edits.Contention == nil && !o.Turn.Healing()
}

// Fail notes a problem of the object.
func (o *Object) Fail(reason, message string) {
	o.Problem = &object.Failure{Reason: reason, Message: message}
}

// Await notes a problem of the object that an event or another object ends.
func (o *Object) Await(reason, message string) {
	o.Problem = &object.Failure{Reason: reason, Message: message, Awaited: true}
}

// EndProblem ends the problem of the object, and with it the knowledge from the attempts that failed.
func (o *Object) EndProblem() {
	o.Problem, o.Attempts.MissingRights, o.Attempts.Refused = nil, nil, nil
}

// Leave notes that another client created the object, which Vidra leaves as it is.
func (o *Object) Leave() {
	o.Problem, o.Attempts, o.Edits.Drift, o.Entry, o.Remarks, o.Seen.Foreign = nil, Attempts{}, nil, nil, Remarks{Known: true}, true
}

// DeletedByVidra reports whether Vidra has deleted the object of the inventory, or was about to: it left the manifest, or spec.force has it created again.
// Its absence is no edit.
func (o *Object) DeletedByVidra() bool {
	return o.In(v1alpha1.ObjectDeleting) || o.Entry != nil && o.Entry.Recreated != nil && o.Entry.Recreated.UID == o.Entry.UID
}

// SetUnapplied sets a state in which the object of the manifest is still to be applied. The end of the object before stays known until it exists again: its
// deletion by Vidra itself, or its completion.
func (o *Object) SetUnapplied(state v1alpha1.ObjectState) {
	switch {
	case o.Entry == nil, o.In(v1alpha1.ObjectCompleted):
		return
	case o.In(v1alpha1.ObjectDeleting):
		o.noteDeletion()
	}
	o.Entry.State = state
}

// lasts reports whether an object of the manifest exists, and stays after its end.
func (o *Object) lasts() bool {
	deleted := o.Edits.Drift != nil && o.Edits.Drift.Deleted
	return o.Entry != nil && o.Entry.UID != "" && !deleted && !o.Entry.Succeeded && !o.Desired.Lifetime.RemovesItself
}

// noteDeletion notes that Vidra deletes the object, or is about to, since it left the manifest.
func (o *Object) noteDeletion() {
	deleted := ptr.Deref(o.Entry.Recreated, v1alpha1.RecreatedStatus{})
	deleted.UID = o.Entry.UID
	o.Entry.Recreated = &deleted
}

// NoteExists notes an object that exists: unless it is being deleted, the deletion that the inventory announces was not sent, or refused.
func (o *Object) NoteExists(live *unstructured.Unstructured) {
	if is := o.Entry.Recreated; is != nil && is.UID == string(live.GetUID()) && live.GetDeletionTimestamp() == nil {
		o.Entry.Recreated = nil
	}
}

// In reports whether the object is in the inventory in a state.
func (o *Object) In(state v1alpha1.ObjectState) bool {
	return o.Entry != nil && o.Entry.State == state
}
