// Package cloudevents sends Events out of the cluster, as CloudEvents 1.0 in the binary mode of
// the HTTP binding.
//
// A [Sink] takes the Events of package events, except ChangeReverted, which repeats
// DriftCorrected for the managed object. docs/cloudevents.md describes [Data], the data of a
// CloudEvent.
//
// Invariants: recording never waits for the receiver; an Event that was handed to a Sink is
// delivered, or counted as dropped, refused or failed; the URL of the receiver, which may hold a
// token, is not logged.
package cloudevents
