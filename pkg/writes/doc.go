// Package writes sets the switches that users would otherwise write by hand: spec.suspend, spec.adopt, spec.deletionPolicy, and the
// annotations of a reconcile request, of break-glass and of an object that is kept. It writes with the rights of its user.
//
// Invariants:
//   - Each write is one patch of named fields, under the field manager [FieldManager].
//   - A write that has to be taken back, such as the write of [Client.Adopt], is, also when ctx ends.
package writes
