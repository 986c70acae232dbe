// Package watchregistry keeps one label-filtered dynamic informer for each
// resource (GVR) of each cluster that somebody needs, registered and stopped at
// run time, and knows for whom and in which state each of them is.
//
// Owners say which watches they need with [Registry.Sync], declaratively: the
// set that an owner names replaces the one it named before. Where something may
// fail on the way to the new set, [Registry.Ensure] adds to the old one first. A
// watch starts when its first owner comes and stops some time after its last
// owner has left. An owner learns of every change of state of a watch that it
// needs, and of every kind that it waits for with [Registry.Await] and that has
// come. Clusters come and go with [Registry.AddCluster] and [Registry.RemoveCluster].
//
// The package knows nothing of what its owners do with the events: handlers and
// the transform that decides what is kept of an object are given as functions.
//
// How a watch is put together:
//
//	API server -> gate, stream (retries, states, statistics)
//	  -> informer (client-go) -> transform -> store
//	  -> delivery (merges what a slow handler has not taken) -> handler
//
// Invariants:
//   - The mutex guards maps and nothing else. No request, discovery, wait for a
//     sync or callback happens while it is held, so no watch can delay another
//     one, and no call here blocks on a server.
//   - Each watch is a state machine, and what happens to it is decided by a pure
//     function (see next). Every start is an incarnation of its own; what arrives
//     from an older one is ignored.
//   - The check that nobody needs a watch any more and its removal are one
//     critical section: a watch that somebody has just asked for is not stopped.
//   - A kind that is not served is not asked for in a loop: its informer is
//     stopped and the watch is Pending until discovery serves it again, which
//     metadata watches on CustomResourceDefinitions and APIServices notice.
//   - What fails is tried again by the gate alone, with a backoff that ends early
//     when there is reason to: a kind changed, another watch of the cluster
//     recovered, somebody new asks, or who knows more says so (see [Registry.Wake]).
//     Every wait ends with the watch.
//   - A cluster that is removed takes its watches along. Another one may have its
//     name at once, and nothing of the old one reaches who needs the new one.
//   - What was deleted while a watch was down is reported as deleted, with a
//     cache.DeletedFinalStateUnknown.
//
// What it never does: write to a cluster, decide what an event means, or log in
// the steady state.
package watchregistry
