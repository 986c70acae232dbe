package events

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// Action is a write of a reconcile to an object.
type Action string

const (
	// Created means that the object was absent.
	Created Action = "Created"
	// Configured means that the object existed and was changed to match the manifest.
	Configured Action = "Configured"
	// Restored means that fields of the object had been changed and were reverted.
	Restored Action = "Restored"
	// Recreated means that the object had been deleted and was created again.
	Recreated Action = "Recreated"
	// Relabelled is the revert of the label that the watches select.
	Relabelled Action = "Relabelled"
	// Pruned means that the object was deleted, because it left the manifest or
	// because its VidraResource is being deleted.
	Pruned Action = "Pruned"
	// Detected means that the object was changed and Vidra does not revert the change.
	Detected Action = "Detected"
	// Contended means that another writer keeps changing the object.
	Contended Action = "Contended"
	// Settled means that the object has stopped being contended.
	Settled Action = "Settled"
	// Released means that Vidra released its fields of the object, which other owners keep.
	Released Action = "Released"
	// Orphaned means that Vidra released the object without deleting it: it is unmanaged.
	Orphaned Action = "Orphaned"
	// Replaced means that the object was deleted to be created again, because a field that
	// differs is immutable.
	Replaced Action = "Replaced"
	// Retyped means that the manifest has the object with another kind or in another version.
	Retyped Action = "Retyped"
	// Deleted means that the VidraResource, which is the object, is being deleted.
	Deleted Action = "Deleted"
	// Rotated means that the VidraResource, which is the object, uses another kubeconfig.
	Rotated Action = "Rotated"
	// Progressed means that the objects of the VidraResource, which is the object, are still being applied.
	Progressed Action = "Progressed"
	// Answered means that the answer to the break-glass annotations of the object changed.
	Answered Action = "Answered"
)

// Change is a write of a reconcile to one object.
type Change struct {
	Action Action
	// Object is the object, without a resourceVersion.
	Object corev1.ObjectReference
	// Fields are the fields that were reverted, or that differ.
	Fields []ownership.Change
	// Cluster is the cluster of the object; empty for the local one, which has the Events.
	Cluster string
	// Note adds the reason to leave a change, or the next step.
	Note string
	// Place is where the manifest has the object, for example "spec.manifest of VidraResource
	// shop, document 2, line 14". Only Events about reverts have it; empty if it is unknown.
	Place string
	// BreakGlass is the answer of an Answered change.
	BreakGlass *v1alpha1.BreakGlassStatus
	// Adopted reports that the object existed without an owner before it was applied.
	Adopted bool
	// Took is the time from the edit to its revert; 0 if it is unknown. No Event has it.
	Took time.Duration

	// ambiguous reports that the VidraResource has objects of this kind in another group, too.
	ambiguous bool
}

// withAmbiguous returns changes, with those marked whose kind the VidraResource has in several groups.
func withAmbiguous(changes []Change, managed []v1alpha1.ManagedResourceStatus) []Change {
	if len(changes) == 0 {
		return changes
	}
	kinds := kindsOf(managed)
	marked := slices.Clone(changes)
	for i := range marked {
		marked[i].ambiguous = kinds.Ambiguous(marked[i].Object.GroupVersionKind().GroupKind())
	}
	return marked
}

// kindsOf returns the kinds of an inventory.
func kindsOf(managed []v1alpha1.ManagedResourceStatus) (kinds display.Kinds) {
	for i := range managed {
		kinds.Add(schema.FromAPIVersionAndKind(managed[i].APIVersion, managed[i].Kind).GroupKind())
	}
	return kinds
}

// Event is a Kubernetes Event before it is written.
type Event struct {
	Type   string
	Reason string
	Action string
	// Note is the text; see the invariants of the package.
	Note string
	// Regarding is the object that the Event is about, Related a second one, or nil.
	Regarding corev1.ObjectReference
	Related   *corev1.ObjectReference
	// OnObject reports that the Event regards a managed object, which may be a VidraResource itself.
	OnObject bool
	// Objects are the objects that the Event is about, if it may be about several. The note
	// names as many as fit; see [Event.Annotations].
	Objects []Object
	// Fields are the fields of the object that were reverted, or that differ.
	Fields []ownership.Change
	// Variant separates Events that differ only in their notes. Events with the same
	// Variant are one series, which keeps the first note. It stays in memory.
	Variant string
}

// Transitions returns the Events of a reconcile, from the status of the VidraResource before
// and after it and the changes that it made. Two equal statuses without a change are no
// transition. Both are statuses as they are written, so a restart in between loses nothing.
func Transitions(owner corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus, changes []Change) []Event {
	changes = withAmbiguous(changes, after.ManagedResources)
	// Each generation is a series of its own, because a series keeps only its first note.
	manifest := owner
	manifest.FieldPath = fmt.Sprintf("spec.manifest[generation=%d]", after.ObservedGeneration)
	var edits []Event
	for _, change := range changes {
		edits = append(edits, OfEdit(owner, change)...)
	}
	all := slices.Concat(
		appliedEvents(manifest, changes), edits, noteEvents(manifest, changes), prunedEvents(manifest, changes),
		completedEvents(manifest, before, after), watchEvents(owner, before, after), destinationEvents(owner, before, after),
		problemEvents(manifest, before, after, changes), healthEvents(owner, before, after), warningEvents(manifest, before, after),
		suspensionEvents(owner, before, after), readyEvents(owner, before, after),
	)
	for i := range all {
		all[i].Note = CleanNote(all[i].Note)
	}
	return all
}

// OfEdit returns the Events of a change that is about an edit of an object: the reverted fields, or the reason for which they
// stay. The first one regards the VidraResource. There are none for other changes.
func OfEdit(owner corev1.ObjectReference, change Change) []Event {
	return slices.Concat(revertEvents(owner, change), driftEvents(owner, change), breakGlassEvents(owner, change))
}

// appliedEvents reports which objects a reconcile created or changed. They share one Event, so
// that a first apply costs one request however many objects there are (ADR 40).
func appliedEvents(owner corev1.ObjectReference, changes []Change) []Event {
	e := Event{Type: normal, Reason: v1alpha1.ReasonApplied, Action: ActionApply, Regarding: owner}.about(changes, Created, Configured)
	if len(e.Objects) == 0 {
		return nil
	}
	created, configured := e.names(Created), e.names(Configured)
	e.Note = fmt.Sprintf("Applied the manifest: %d created, %d changed", len(created), len(configured))
	// Created objects take the room that changed ones leave, and half of it at least.
	const words = len(". Created " + ". Changed ")
	room := MaxNote - len(e.Note) - words
	changed := list(configured, room-min(room/2, len(strings.Join(created, ", "))))
	if len(created) > 0 {
		e.Note += ". Created " + list(created, room-len(changed))
	}
	if len(configured) > 0 {
		e.Note += ". Changed " + changed
	}
	e.Variant = e.objectsVariant()
	return []Event{e}
}

// noteEvents reports objects whose kind or version changed, that the VidraResource is being deleted, that it uses
// another kubeconfig, and how far a long apply has come.
func noteEvents(owner corev1.ObjectReference, changes []Change) []Event {
	var all []Event
	for _, change := range changes {
		means := meanings[change.Action]
		if means.topic != ofOwner {
			continue
		}
		e := means.event()
		e.Regarding, e.Note = owner, change.name()+" "+change.Note
		if object := change.Object; change.Action == Retyped {
			e.Related = &object
		}
		e.Variant = e.Note
		all = append(all, e)
	}
	return all
}

// revertEvents reports the reverted fields, for the VidraResource and for the object.
func revertEvents(owner corev1.ObjectReference, change Change) []Event {
	if !change.Action.Reverts() {
		return nil
	}
	what := Fields(change.Fields)
	if change.Action == Recreated {
		what = "created it again after it had been deleted"
	}
	if change.Action == Relabelled {
		label := fmt.Sprintf("restored the label %s=%s", v1alpha1.ManagedByLabel, v1alpha1.ManagedByValue)
		if what != "" {
			label += ". " + strings.ToUpper(what[:1]) + what[1:]
		}
		what = label
	}
	if change.Note != "" {
		what += ". But " + change.Note
	}
	end := keepBegin + cmp.Or(change.Place, "the manifest of "+Name(owner))
	corrected := Event{
		Type: normal, Reason: ReasonDriftCorrected, Action: ActionRestore, Note: change.name() + ": " + what,
		Variant: variantOf(what, end), // other values are another series; withheld ones are left out
	}
	if change.Place != "" && len(corrected.Note)+len(end) <= MaxNote {
		corrected.Note += end
	}
	begin := fmt.Sprintf("VidraResource %s manages this object and ", owner.Name)
	reverted := corrected
	reverted.Reason, reverted.Note = ReasonChangeReverted, begin+display.Truncate(what, MaxNote-len(begin)-len(end))+end
	return change.both(owner, corrected, reverted)
}

// both returns an Event that regards the VidraResource and is related to the object, and one that regards the object, unless another
// cluster has the object.
func (c Change) both(owner corev1.ObjectReference, atOwner, atObject Event) []Event {
	object := c.Object
	object.FieldPath = fieldPath(c.Fields)
	atOwner.Regarding, atOwner.Related, atOwner.Fields = owner, &object, c.Fields
	atObject.Regarding, atObject.Related, atObject.Fields, atObject.OnObject = object, &owner, c.Fields, true
	if c.Cluster != "" {
		return []Event{atOwner}
	}
	return []Event{atOwner, atObject}
}

// keepBegin begins the sentence that ends a note about a revert: where to make a change that lasts.
const keepBegin = ". To keep a change, make it in "

// prunedEvents reports which objects were deleted, released or orphaned.
func prunedEvents(owner corev1.ObjectReference, changes []Change) []Event {
	e := Event{Type: normal, Reason: ReasonPruned, Action: ActionPrune, Regarding: owner}.about(changes, Pruned, Released, Orphaned)
	texts := []struct {
		done Action
		does string
	}{{Pruned, "Removed "}, {Released, "Released to their other owners: "}, {Orphaned, "Left in place, unmanaged: "}}
	const words = 80 // the bytes of the texts
	var parts []string
	for _, text := range texts {
		names := e.names(text.done)
		room := (MaxNote - words) * len(names) / max(1, len(e.Objects))
		if len(names) > 0 {
			parts = append(parts, text.does+list(names, room))
		}
	}
	if len(parts) == 0 {
		return nil
	}
	e.Note, e.Variant = strings.Join(parts, ". "), e.objectsVariant()
	return []Event{e}
}
