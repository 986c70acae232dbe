// Package access decides where and as whom a VidraResource is applied: the cluster, whether it can be
// reached, and the ServiceAccount that Vidra impersonates. It also notices that a missing right was granted.
//
// Only account.go makes clients, so that every request keeps to the account of a VidraResource; a test
// requires it.
package access
