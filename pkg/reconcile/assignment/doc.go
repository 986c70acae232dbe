// Package assignment decides which VidraResources an operator reconciles: by its installation (ADR 25) and by its
// shard (ADR 46).
//
// The cache of an operator with a shard has only the VidraResources that match its selector, so [Assignment] has no rule about
// that. The rest is in [Relabel]: the objects of a VidraResource get the labels of the shards that reconcile it. Relabel
// leaves every other field as it is, also an edited one.
package assignment
