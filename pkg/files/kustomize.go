package files

import (
	"fmt"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// build returns the objects of the kustomization in a folder.
func build(dir string) (string, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return "", fmt.Errorf("build the kustomization in %s: %w", dir, err)
	}
	text, err := built.AsYaml()
	if err != nil {
		return "", fmt.Errorf("build the kustomization in %s: %w", dir, err)
	}
	return string(text), nil
}
