// Package source reads and watches the objects that hold manifests, as spec.manifestFrom names them.
//
// A [Source] is the implementation of one kind: its current revision, the content of a revision, and the requests that show a change.
// [Objects] are ConfigMaps and Secrets; package flux has those of the artifacts of Flux. [Watches] watches the objects of all
// kinds, each with a watch of its own.
//
// Invariants: no error quotes a Secret; the package knows nothing of the objects that a manifest makes, nor of healing.
package source
