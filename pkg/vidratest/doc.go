// Package vidratest measures whether Vidra reverts edits, for the test suite of a platform: on kind, or on any cluster with
// Vidra. It needs only the rights of its caller, who must be allowed to read VidraResources and to patch the
// objects, and for objects in other clusters to list the Secrets with the kubeconfigs of these.
//
// [Cluster.Healed] makes an edit and measures how long it can be seen. [Cluster.AwaitHealed] waits until an
// object is as its VidraResources want it. [Cluster.Drill] makes an edit that starts nothing, and reverts it
// itself if Vidra does not. `vidra expect healed` and `vidra drill` are the same from a shell.
//
// The time is taken from a watch of that object alone, which is open since before the edit. It begins when the watch shows the
// edit and ends when the watch shows the object as wanted. Nothing is polled. The API server decides whether an object is as
// wanted, by a dry run of the apply that the operator sends. Values of Secrets are never reported.
//
// The package imports no test library, and its functions return errors: use any.
package vidratest
