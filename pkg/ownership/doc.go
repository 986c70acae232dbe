// Package ownership tells, from one Kubernetes object alone, which fields a
// field manager owns in it, whether they are as they were after its last
// server-side apply, and who changed them if they are not.
//
// The API server keeps, in metadata.managedFields, the exact set of fields that
// each manager applied (KEP-555, server-side apply). A change by anybody else
// either takes a path out of that set or, when it comes under the same manager,
// changes a value at a path in it. A digest over both, the paths and the live
// values, therefore changes if and only if something that is ours changed:
// status updates, foreign fields, resyncs and relists leave it alone, on every
// kind, whether or not the kind maintains metadata.generation.
//
// Invariants: the package is pure. It does no I/O, keeps no state, does not
// modify what it is given, imports nothing else of this module, and is safe for
// concurrent use. The values of a Secret never leave it.
package ownership
