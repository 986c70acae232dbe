package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// cliName is the name of the command line, and of the plugin of kubectl that it is.
const cliName = "vidra"

// cliPlatforms are those that the command line is released for.
var cliPlatforms = []platform{{"darwin", "amd64"}, {"darwin", "arm64"}, {"linux", "amd64"}, {"linux", "arm64"}}

// cliFiles returns an archive of the command line and an SBOM for each platform, and the
// manifest for krew.
func (r release) cliFiles(ctx context.Context, work string) (files []file, err error) {
	license, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	var plugins []any
	for _, on := range r.cli {
		target := filepath.Join(work, on.file(cliName))
		if err := r.buildProgram(ctx, cliName, on, target); err != nil {
			return nil, err
		}
		program, err := os.ReadFile(target)
		if err != nil {
			return nil, err
		}
		var packed bytes.Buffer
		if err := writeTarGz(&packed, r.commit.time, file{"LICENSE", 0o644, license}, file{cliName, 0o755, program}); err != nil {
			return nil, err
		}
		archive := file{name: on.file(cliName) + ".tar.gz", content: packed.Bytes()}
		sbom, err := r.newSBOM(on.file(cliName), target)
		if err != nil {
			return nil, err
		}
		files = append(files, archive, sbom)
		plugins = append(plugins, map[string]any{
			"selector": map[string]any{"matchLabels": map[string]any{"os": on.os, "arch": on.arch}},
			"uri":      fmt.Sprintf("%s/releases/download/%s/%s", source, r.version, archive.name),
			"sha256":   fmt.Sprintf("%x", sha256.Sum256(archive.content)),
			"bin":      cliName,
		})
	}
	// https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/
	manifest, err := yaml.Marshal(map[string]any{
		"apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
		"kind":       "Plugin",
		"metadata":   map[string]any{"name": cliName},
		"spec": map[string]any{
			"version":          r.version,
			"homepage":         source,
			"shortDescription": "Explain what became of edits of managed objects",
			"description":      "Vidra keeps Kubernetes objects as a VidraResource describes them.\nThis plugin explains who edited an object, what became of the edit and how to keep it,\nand shows what an apply would do.\n",
			"platforms":        plugins,
		},
	})
	return append(files, file{name: "krew.yaml", content: manifest}), err
}
