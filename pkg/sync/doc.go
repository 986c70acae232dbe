// Package sync makes VidraResources of the artifacts of Infrahub servers, as InfrahubSyncs specify. It is the second half of
// the first Vidra operator.
//
// [Controller] runs the [Reconciler] while the CustomResourceDefinition of InfrahubSyncs is served. A sync queries the server,
// writes a VidraResource for each artifact with server-side apply, and deletes those whose artifacts are gone. [Receiver]
// accepts webhooks of Infrahub, which request a sync at once.
//
// Invariants:
//
//   - A VidraResource is deleted only if this InfrahubSync is its controller, by UID, and a complete answer of the server does
//     not list its artifact. Large removals wait for a confirmation, and all of them until the listed artifacts are applied.
//     The request has the UID and the resourceVersion as preconditions.
//   - A failed request deletes nothing and changes nothing.
//   - The manifest of objects with Secrets is in a Secret alone.
//   - Without a change, a sync sends the query, and no write.
//
// The package writes VidraResources and knows nothing of their use by the engine; no package of the engine imports it.
package sync
