// Package flux reads manifests from the artifacts of Flux: GitRepository, OCIRepository, Bucket and ExternalArtifact
// (https://github.com/fluxcd/flux2/tree/main/rfcs/0012-external-artifact).
//
// An artifact is fetched, verified and unpacked below a directory of its own, and then read: a path with a kustomization is built, and of
// another one all YAML files are read, in the order of their paths.
//
// Invariants:
//
//   - Artifacts are fetched only from the hosts that [Hosts] allows, and no redirect leads to another one.
//   - Digest and size are verified before a file of the artifact is read. Size, number of files and time are bounded.
//   - Aliases, objects, patches, and the variables of an object, all unbounded in kustomize, are counted before it reads a file.
//   - Nothing outside of the artifact is read: links are not unpacked, a kustomization names files of the artifact alone, and no plugin, no
//     function and no other program runs.
//   - No error has a value of a Secret, or a part of an answer of the server but its status and the names in an archive.
//
// The package knows nothing of the objects that Vidra manages.
package flux
