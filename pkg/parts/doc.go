// Package parts cuts manifests into the parts of a VidraResource: the text for spec.manifest, and texts that fit into ConfigMaps and
// Secrets each.
//
// Invariants:
//   - An object with values that not all readers of VidraResources may read ([Sensitive]) is in a part for a Secret, and no other
//     object is.
//   - The parts have the objects of the texts, in their order, and each once. [Cut] reads its result again and compares it.
//   - The text of an undivided document is unchanged, with its comments.
//
// The package sends no request and reads no file.
package parts
