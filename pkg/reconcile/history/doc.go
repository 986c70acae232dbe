// Package history keeps the edits of the objects of a VidraResource, and their outcomes, beyond the lifetime of Events. The
// entries are in the status, which is written at most every few seconds, so they wait in a [Pending] until it is. See ADR 41.
package history
