// Package events says in Kubernetes Events what became of a VidraResource and
// of the changes that somebody made to its objects.
//
// [Transitions] is pure: from two statuses and the changes in between to the
// Events that a person should see. Events are made on transitions only; a pass
// that changes nothing makes none. A [Recorder] writes them with client-go's
// events.k8s.io/v1 broadcaster, which turns recurrences into series.
//
// Every Event regards the VidraResource and relates to the object it speaks of,
// so that everything about one VidraResource is found in one place. When a
// change of a person was put back, a second Event regards the object itself,
// because that is where the person looks.
//
// Invariants: notes stand alone, name the object, and never hold a duration, a
// counter, a resourceVersion or a value of a Secret; references have no
// resourceVersion, or nothing would aggregate; a note is shorter than the 1,024
// bytes beyond which the API server rejects the Event.
package events
