// Package infrahub reads and writes the objects that configure the sync of Infrahub servers: InfrahubSyncs, the Secrets with the
// credentials of servers, and the Secrets with the kubeconfigs of destinations. It has the rights of its user.
//
// Invariants:
//   - Each object is written by one server-side apply or one merge patch, under the field manager insight.FieldManager.
//   - A Secret is written or deleted only if it has the label of its kind. A deletion names the uid and the resourceVersion that were read.
//   - No error quotes a value of a Secret.
package infrahub
