package events

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// Action says what was done to an object.
type Action string

const (
	// Created says that the object did not exist.
	Created Action = "Created"
	// Configured says that the object existed and was changed to what the manifest says.
	Configured Action = "Configured"
	// Restored says that somebody had changed the object, and it was put back.
	Restored Action = "Restored"
	// Recreated says that somebody had deleted the object, and it was put back.
	Recreated Action = "Recreated"
	// Relabelled says that the object had lost the label by which it is watched.
	Relabelled Action = "Relabelled"
	// Pruned says that the object was removed because it left the manifest, or because
	// its VidraResource is going.
	Pruned Action = "Pruned"
	// Detected says that somebody changed the object, and that it is left so.
	Detected Action = "Detected"
	// Contended says that another writer keeps changing the object.
	Contended Action = "Contended"
	// Settled says that nobody does any more.
	Settled Action = "Settled"
	// Released says that the object was to be removed, and was left to its other owners.
	Released Action = "Released"
	// Orphaned says that the object was to be removed, and was left in place as
	// nobody's.
	Orphaned Action = "Orphaned"
	// Replaced says that the object was deleted, to be created again, because a field of
	// it cannot change.
	Replaced Action = "Replaced"
	// Answered says that the break-glass annotations of the object have another answer.
	Answered Action = "Answered"
)

// Change is what was done to one object.
type Change struct {
	Action Action
	// Object that was changed, without a resourceVersion.
	Object corev1.ObjectReference
	// Fields that were put back, or that differ.
	Fields []ownership.Change
	// Cluster that the object is in; empty for the one that Events are written to.
	Cluster string
	// Note says more: why a change is left, or what to do about it.
	Note string
	// BreakGlass is the answer of an Answered change.
	BreakGlass *v1alpha1.BreakGlassStatus
}

// Event is a Kubernetes Event before it is written.
type Event struct {
	Type   string
	Reason string
	Action string
	// Note stands alone: it names the object, and holds neither a duration nor a
	// value of a Secret.
	Note string
	// Regarding is what the Event is about, Related the other object that it
	// speaks of, or nil.
	Regarding corev1.ObjectReference
	Related   *corev1.ObjectReference
	// Fields of the object that were put back, or that differ.
	Fields []ownership.Change
	// Variant keeps Events apart that agree in all but the note: those with the same
	// Variant are one series, of which the first note is kept. It is not written.
	Variant string
}

// Transitions lists what a person should be told of a pass over a
// VidraResource: from its status before and after, and from what was changed.
// Two equal statuses without a change are no transition. Both are statuses as
// they are written, so a restart in between loses nothing.
func Transitions(owner corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus, changes []Change) []Event {
	// Each generation is a series of its own, or what the first one came to would
	// be the only thing that is told.
	manifest := owner
	manifest.FieldPath = fmt.Sprintf("spec.manifest[generation=%d]", after.ObservedGeneration)
	all := applied(manifest, changes)
	for _, change := range changes {
		all = append(all, restored(owner, change)...)
		all = append(all, drifted(owner, change)...)
		all = append(all, answered(owner, change)...)
	}
	all = append(all, pruned(manifest, changes)...)
	all = append(all, watching(owner, before, after)...)
	all = append(all, connection(owner, before, after)...)
	all = append(all, readiness(manifest, before, after, changes)...)
	all = append(all, health(owner, before, after)...)
	all = append(all, warned(manifest, before, after)...)
	all = append(all, suspension(owner, before, after)...)
	for i := range all {
		all[i].Note = clean(all[i].Note)
	}
	return all
}

// applied tells that a pass created or changed objects.
func applied(owner corev1.ObjectReference, changes []Change) []Event {
	created, configured := 0, 0
	for _, change := range changes {
		switch change.Action {
		case Created:
			created++
		case Configured:
			configured++
		case Restored, Recreated, Relabelled, Pruned, Released, Orphaned, Replaced, Detected, Contended, Settled, Answered:
		}
	}
	if created+configured == 0 {
		return nil
	}
	note := fmt.Sprintf("Applied the manifest: %d created, %d changed", created, configured)
	return []Event{{
		Type: normal, Reason: ReasonApplied, Action: ActionApply, Regarding: owner, Note: note, Variant: note,
	}}
}

// restored tells the owner, and whoever looks at the object, what was put back.
func restored(owner corev1.ObjectReference, change Change) []Event {
	what := ""
	switch change.Action {
	case Restored:
		what = Fields(change.Fields)
	case Recreated:
		what = "created it again after it had been deleted"
	case Relabelled:
		what = fmt.Sprintf("restored the label %s=%s", v1alpha1.ManagedByLabel, v1alpha1.ManagedByValue)
		if fields := Fields(change.Fields); fields != "" {
			what += ". " + strings.ToUpper(fields[:1]) + fields[1:]
		}
	case Created, Configured, Pruned, Released, Orphaned, Replaced, Detected, Contended, Settled, Answered:
		return nil
	}
	if change.Note != "" {
		what += ". But " + change.Note
	}
	object := change.Object
	object.FieldPath = fieldPath(change.Fields)
	corrected := Event{
		Type: normal, Reason: ReasonDriftCorrected, Action: ActionRestore,
		Regarding: owner, Related: &object, Fields: change.Fields, Variant: managers(change.Fields),
		Note: Name(change.Object) + ": " + what,
	}
	if change.Cluster != "" { // an Event here would speak of another object
		return []Event{corrected}
	}
	begin := fmt.Sprintf("VidraResource %s manages this object and ", owner.Name)
	const end = ". To keep a change, make it in spec.manifest of the VidraResource"
	return []Event{corrected, {
		Type: normal, Reason: ReasonChangeReverted, Action: ActionRestore,
		Regarding: object, Related: &owner, Fields: change.Fields, Variant: managers(change.Fields),
		Note: begin + Truncate(what, maxNote-len(begin)-len(end)) + end,
	}}
}

// pruned tells that objects were removed, or left when they might have been.
func pruned(owner corev1.ObjectReference, changes []Change) []Event {
	removed, released, orphaned := subjects(changes, Pruned), subjects(changes, Released), subjects(changes, Orphaned)
	var parts []string
	if len(removed) > 0 {
		parts = append(parts, "Removed "+strings.Join(removed, ", "))
	}
	if len(released) > 0 {
		parts = append(parts, "Left to their other owners: "+strings.Join(released, ", "))
	}
	if len(orphaned) > 0 {
		parts = append(parts, "Left in place, unmanaged: "+strings.Join(orphaned, ", "))
	}
	if len(parts) == 0 {
		return nil
	}
	note := strings.Join(parts, ". ")
	e := Event{Type: normal, Reason: ReasonPruned, Action: ActionPrune, Regarding: owner, Note: note, Variant: note}
	if len(removed)+len(released)+len(orphaned) == 1 {
		i := slices.IndexFunc(changes, func(c Change) bool {
			return c.Action == Pruned || c.Action == Released || c.Action == Orphaned
		})
		object := changes[i].Object
		e.Related = &object
	}
	return []Event{e}
}

// subjects names the objects to which something was done.
func subjects(changes []Change, done Action) []string {
	var names []string
	for _, change := range changes {
		if change.Action == done {
			names = append(names, Name(change.Object))
		}
	}
	return names
}
