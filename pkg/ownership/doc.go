// Package ownership determines from a single Kubernetes object which fields a field manager owns
// in it, whether they are unchanged since its last server-side apply, and which managers changed
// them otherwise.
//
// The API server keeps, in metadata.managedFields, the exact set of fields that each manager
// applied (KEP-555, server-side apply). A change by another writer either removes a path from that
// set or, under the same manager, changes a value at a path in it. So a digest over the paths and
// the live values changes if and only if an owned field changed. Status updates, fields of other
// managers, resyncs and relists leave it as it is, on every kind, with or without
// metadata.generation.
//
// [ReleaseFields] returns the managedFields of an object without fields that a manager gives up,
// and [Without] those without a manager.
//
// # Invariants
//
// The package is pure. It does no I/O, its only state is [WithholdValues], it leaves its arguments
// as they are, imports only pkg/internal of this module, and is safe for concurrent use.
//
// The package returns no values of a Secret, or of an object with the [SensitiveAnnotation]: neither as values nor in paths,
// where values identify the items of lists. It returns the names of fields, such as the keys of a Secret's data. [Disclose]
// decides which objects are sensitive. A message of the API server, of a policy or of a webhook may quote values of an object, too:
// [QuotesNothing] knows the messages without any, and [WithoutMessage] describes the others.
//
// Two digests are equal if and only if the same paths are owned and their live values are equal. The order of maps, the
// notation of numbers and the apiVersion of the object or the entry are irrelevant: a path means the same field in each version
// that has it. A version with another name for a field has another digest, so an object is to be read through the version
// through which it is applied. Values are compared as the server returns them: a quantity that was applied as 1000m and is
// stored as 1 is 1 from the first digest on, defaults are unowned, and pruned fields are owned and absent.
//
// A drift is found if and only if digests differ, for as long as each path that
// is owned has a value after the apply.
//
// # Speed
//
// A digest is computed for every event, so it walks the managedFields that the
// informer has decoded. To encode them again and parse them as a [fieldpath.Set],
// as is done once a drift is found, would cost more. On an AMD EPYC with other
// work, approximately, with BenchmarkDigest:
//
//	                                  decoded              as a Set
//	Deployment of 40 owned fields     7 us, 14 allocs      70 us, 710 allocs
//	ConfigMap of 900 keys             140 us, 1 alloc      800 us, 5,440 allocs
//	CRD of 300 properties             95 us, 1 alloc       110 us, 66 allocs
//	list of 1,000 items by name       900 us, 7 allocs     8 ms, 50,000 allocs
//	ConfigMap with a value of 1 MiB   600 us, 1 alloc      600 us, 25 allocs
//
// A third of the time goes into sorting the keys of the owned maps, which are unordered, a
// fifth into looking them up in the object, and an eighth into SHA-256, which is all that
// counts for values of 1 MiB: it reads 1.7 GB a second. Memory is taken for the keys of list
// items that are not one plain string, and for the index of a list of more than 16 items,
// without which the time would grow with the square of its length.
//
// [fieldpath.Set]: https://pkg.go.dev/sigs.k8s.io/structured-merge-diff/v6/fieldpath#Set
package ownership
