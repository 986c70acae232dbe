// Package manifest turns the text of a manifest into checked Kubernetes objects, and sorts them in the order of their apply.
//
// [Parse] reads YAML and JSON and returns the objects in the order of the text. [Resolve] determines the namespace of each
// object, which depends on the destination cluster. [Sort] brings Namespaces and CustomResourceDefinitions before the objects
// that need them.
//
// Invariants:
//
//   - All or nothing: a manifest with one unreadable document yields no object.
//   - The values are those that users of kubectl get: YAML is read by the rules
//     of sigs.k8s.io/yaml (YAML 1.1: 0644 is 420, yes is true, a timestamp is a
//     string). Where kubectl guesses or loses data - duplicate keys, a merge key
//     that overwrites a value before it - the manifest is refused instead.
//   - Object trees hold only what unstructured content may hold (string, int64,
//     float64, bool, nil, map[string]any, []any), and no two objects share any
//     part of their trees.
//   - Whatever a text does with aliases, nesting or size, the work and the
//     memory that reading takes stay in proportion to [Options.MaxBytes], and
//     [Weight] bounds the memory before a text is read. Objects, the values of
//     an object and the values of all objects are limited.
//   - An error names the document, the line and, as far as it is known, the
//     object. It may name a key; it never quotes a value, because that value
//     could be a Secret's.
//
// The package sends no request to a cluster, reads no file, keeps no state, and leaves its arguments unchanged, [Sort]
// excepted. All functions are safe for concurrent use.
package manifest
