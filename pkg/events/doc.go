// Package events says in Kubernetes Events what became of a VidraResource and
// of the changes that somebody made to its objects.
//
// [Transitions] is pure: from two statuses and the changes in between to the
// Events that a person should see. Events are made on transitions only; a pass
// that changes nothing makes none. [Catalogue] lists them all: docs/events.md is
// made of it. A [Recorder] writes them, and turns recurrences into series. [CloudEvents]
// sends the same to a sink, but for ChangeReverted, and each one by itself.
//
// Every Event regards the VidraResource and relates to the object it speaks of,
// so that everything about one VidraResource is found in one place. When a
// change of a person was put back, a second Event regards the object itself,
// because that is where the person looks. An object of another cluster has no such
// Event: it would be written here, where the object is not.
//
// Invariants: notes stand alone, name the object, and never hold a duration, a
// resourceVersion, how often something happened, or a value of a Secret;
// references have no resourceVersion, or nothing would aggregate; a note is
// shorter than the 1,024 bytes beyond which the API server rejects the Event;
// what is handed to a Recorder is written, or counted as not written.
package events
