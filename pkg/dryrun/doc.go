// Package dryrun asks the API server for the result of an apply of a VidraResource, with the rights of its caller. It sends
// the requests of the operator as dry runs: nothing is stored.
//
// The objects, the ignore rules and the additions of edits come from the code of the operator, so a dry run and an apply
// agree. A dry run does not know the writes of another client, or of the apply of another object, in between.
package dryrun
