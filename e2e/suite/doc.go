// Package suite holds what the end-to-end tests of several packages share: a control
// plane with a client of its administrator ([Cluster]), waiting ([Await]), VidraResources
// and what they report, edits as a person makes them, requests from the audit log
// ([Requests]), and what an operator prints and measures.
//
// A package declares its cluster as a variable, starts it in TestMain, and binds the methods
// that its tests use often to short names:
//
//	var (
//		cluster      = &suite.Cluster{}
//		newNamespace = cluster.NewNamespace
//	)
package suite
