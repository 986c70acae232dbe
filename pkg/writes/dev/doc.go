// Package dev applies files to a VidraResource at each save, and streams the outcome. See [Session.Run].
//
// Invariants:
//   - A fault in a file changes nothing, like a file that a save has left empty for a moment.
//   - A save that removes objects is applied once the files have been the same for a while: a checkout or a slow program writes its files
//     one after the other.
//   - The last save is applied, also after a time without the API server.
//   - Texts come from package writes and from the status of the VidraResource, both without withheld values.
package dev
