// Package status turns the results of a reconcile into the status: states of objects, inventory, problems and conditions. It
// sends no request.
//
// [Recorder] records results in the states of the objects. [Summarize] is pure.
package status
