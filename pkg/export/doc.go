// Package export makes manifests of live objects.
//
// Invariants:
//   - An apply of an exported document leaves the object that it is from as it is: a dry run of the API server says so, or a remark names it.
//   - The requests for one object are bounded, and nothing is stored: all writes are dry runs.
//   - Objects that another object owns are left out and counted.
package export
