// Package progress reports a long apply before it ends: how many objects are applied, and which
// failed.
//
// The goroutine that waits for the workers of a [Run] makes the reports, so a report may use the data that belongs
// to the reconcile. The package sends no request. An apply that ends within [Interval] goes unreported.
package progress
