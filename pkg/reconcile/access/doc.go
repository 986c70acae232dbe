// Package access decides where and as whom a VidraResource is applied: the cluster, its reachability,
// and the ServiceAccount that Vidra impersonates. It also notices that a missing right was granted.
//
// Only account.go makes clients, so that no request goes past the account of a VidraResource; a test
// requires it.
package access
