// Package files reads manifests from where users have them: files, folders, the standard input, URLs and kustomizations.
//
// Invariants:
//   - The text of a URL is bounded by [MaxBytes], and a read of it ends with its context or after a minute.
//   - The name of a file in messages has no credentials: a URL is shown without its user, query and fragment.
//   - A kustomization is built as `kubectl kustomize` builds it: confined to its root, without plugins, exec functions and charts.
package files
