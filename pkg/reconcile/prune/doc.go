// Package prune removes objects: those that left the manifest, or all of them.
//
// Invariants: only what the VidraResource owns at that moment is deleted, as exactly the object that was
// read; a Namespace or CustomResourceDefinition is kept while it holds an object that is kept; an object stays
// in the inventory until it is deleted or released.
package prune
