// Package stopwatch times how long an edit of an object stands. Both the
// benchmark and the demo measure with it.
//
// The clock starts when a watch shows the edit and stops when the same watch
// shows the object as it was wanted again. The watch is open on that one object
// since before the edit, so nothing is polled and nothing is rounded up to an
// interval. It starts there, and not with the request, because the API server's
// own work on the edit is the same for each client that reverts it and would only flatter a
// comparison; and not with the response, because that sometimes arrives when the
// edit has been reverted already. The client that reverts the edit learns of it from a
// watch too, at the same time as the clock.
//
// The package knows nothing of Vidra. That an object is as wanted is judged
// from the object alone, by comparing it with what was applied; see [Covers].
package stopwatch
