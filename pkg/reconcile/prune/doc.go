// Package prune removes objects: those that left the manifest, or all of them.
//
// Invariants: an object is deleted only if the VidraResource owns it at that moment, as exactly the object that was read; a
// Namespace or CustomResourceDefinition is kept while it holds an object that is kept; an object stays in the inventory until
// it is deleted or released.
package prune
