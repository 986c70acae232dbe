// Package events decides which Events a reconcile of a VidraResource makes. It is pure.
//
// [Transitions] returns the Events for two statuses and the changes in between. There are
// Events on transitions only; a reconcile that changes nothing makes none. [Catalogue] lists
// every Event; docs/events.md is generated from it. The sinks are packages recorder, which
// writes Kubernetes Events, and cloudevents, which sends CloudEvents.
//
// Every Event regards the VidraResource and relates to the object that it is about, so that
// all Events of a VidraResource are found in one place. When Vidra reverted a change, did not revert one, or
// answered a break-glass request, a second Event regards the object itself, for the user who wrote to it. An
// object of another cluster has no such Event, because this cluster lacks the object.
//
// Invariants: a note stands alone, names the object, and never holds a duration, a
// resourceVersion, a count of recurrences, or a value of a Secret; a note has at most
// [MaxNote] bytes.
package events
