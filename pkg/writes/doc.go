// Package writes sets the switches that users would otherwise write by hand: spec.suspend, spec.adopt, spec.deletionPolicy, and the
// annotations of a reconcile request, of break-glass and of an object that is kept. [Client.Create] writes VidraResources of files, with
// the ConfigMaps and Secrets that hold their manifests. It writes with the rights of its user.
//
// Invariants:
//   - Each write of a switch is one patch of named fields, under the field manager [FieldManager].
//   - A ConfigMap or Secret with a part of a manifest is never changed: a changed manifest is in new ones, to which the VidraResource
//     changes with one write. Only then former ones are deleted, with the uid and the resourceVersion that were read, and only those
//     with the marks of this package that no VidraResource names.
//   - A write that has to be taken back, such as the write of [Client.Adopt], is, also when ctx ends.
package writes
