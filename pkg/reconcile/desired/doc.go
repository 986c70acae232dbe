// Package desired turns a VidraResource and the sources of its manifest into the objects that should
// exist, ready to be applied, and the ignore rules for each. It reads those sources.
//
// Invariants: a manifest that cannot be read changes nothing; no error quotes a Secret; the values of an
// object whose manifest is in a Secret are never shown.
package desired
