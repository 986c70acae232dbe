// Package migrate moves objects from Flux, Helm and kubectl to a VidraResource, and back. It has the rights of its user.
//
// Invariants:
//   - The former tool can delete no object from the first write on: it is stopped before the VidraResource exists, and only an undo starts it.
//   - Objects are adopted unchanged. The fields of the former tool are released only where Vidra applied the object.
//   - Each step finds in the cluster whether it is done, so that a run which ended anywhere is finished by the next one, or undone.
//   - No object is deleted. An undo deletes the VidraResource after its objects are set to stay.
package migrate
