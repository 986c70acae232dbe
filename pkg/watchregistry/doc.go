// Package watchregistry runs one label-filtered dynamic informer for each resource
// (GVR) of each cluster that an owner needs, or for each of its namespaces that an owner
// needs. Informers start and stop at run time. The registry knows the owners and the state
// of each watch.
//
// An owner declares the watches that it needs with [Registry.Sync]: the new set
// replaces the previous one. [Registry.Ensure] only adds to the set, for a caller that
// may fail before the new set is complete. A watch starts with its first owner and
// stops some time after its last owner released it. The registry calls an owner back
// for every change of state of a watch that it needs, and when a kind that it awaits
// ([Registry.Await]) is served. [Registry.AddCluster] and [Registry.RemoveCluster] add
// and remove clusters.
//
// The package knows nothing of the reaction of its owners to events. The handlers, and the transform that reduces each object
// to its stored form, are functions in [Options].
//
// How a watch is put together:
//
//	API server -> retryingClient, stream (retries, states, statistics)
//	  -> informer (client-go) -> transform -> store
//	  -> delivery (merges events that wait for a slow handler) -> handler
//
// Invariants:
//   - The mutex guards maps alone. No request, discovery, wait for a
//     sync or callback happens while it is held. So no watch can delay another one,
//     and no method blocks on a server.
//   - Each watch is a state machine with a pure transition function (see next). Each
//     start of its informer is an informerRun; events of an earlier run are ignored.
//   - The check that a watch has no owner and its removal are one critical section:
//     a watch that an owner has just asked for runs on.
//   - The registry does not poll a kind that is unserved with LIST requests. It stops
//     the informer, and the watch is Pending until discovery serves the kind again. Without
//     an owner, the watch ends.
//     Metadata watches on CustomResourceDefinitions and APIServices notice that.
//   - Only retryingClient repeats failed requests, with a backoff. The backoff ends
//     early when a kind of the group changed, another watch of the cluster recovered,
//     a new owner came, or the caller asks for it (see [Registry.Wake]). Every wait
//     ends with the watch.
//   - RemoveCluster removes the watches of the cluster. A new cluster may have the same
//     name at once, and no event of the old one reaches the owners of the new one.
//   - An object that was deleted while its watch was down is reported as deleted, with
//     a cache.DeletedFinalStateUnknown.
//
// The package never writes to a cluster, leaves the meaning of an event to its owners, and does not log in the steady state.
package watchregistry
