// Package recorder writes Events to the API server and aggregates recurrences into series.
//
// A [Recorder] takes the Events of package events. The aggregator (pure) decides which Events
// are one series and when a series is written; write.go creates and patches Events; recorder.go
// runs the queue.
//
// Invariants: an Event that was handed to a Recorder is written, or counted as refused or
// dropped; references have no resourceVersion, or nothing would aggregate; the number of
// series in memory and of writes a second is bounded.
package recorder
