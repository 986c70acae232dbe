// Package dryrun asks the API server what an apply of a VidraResource would make of its objects, with the
// rights of its caller. It sends the requests that the operator sends, as dry runs: nothing is stored.
//
// The objects, the ignore rules and what an edit added come from the code of the operator, so a dry run and
// an apply agree. A dry run does not know what another client, or the apply of another object, does in
// between.
package dryrun
