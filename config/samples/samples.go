// Package samples holds the samples, so that `vidra demo` has them without a
// checkout at hand.
package samples

import "embed"

// Files are the folders beside this file, each with its manifests and a
// kustomization.yaml.
//
//go:embed */*.yaml
var Files embed.FS
