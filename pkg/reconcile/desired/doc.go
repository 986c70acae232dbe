// Package desired turns a VidraResource and the sources of its manifest into the objects that should
// exist, ready to be applied, and the ignore rules for each. It reads those sources.
//
// Invariants: an unreadable manifest leaves all objects as they are; errors are free of texts of Secrets; the values of an
// object whose manifest is in a Secret stay hidden.
package desired
