package files

import (
	"fmt"
	"regexp"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/vidra-operator/vidra/pkg/source/flux"
)

// faults are the parts of errors about the files of a kustomization. The paths in them have no colon, so that no URL with a password is one.
var faults = regexp.MustCompile(`lstat [^:'"\n]+: [a-z ]+|security; file '[^':\n]+' is not in or below '[^':\n]+'|unable to find one of [^:\n]+|` +
	`must specify --enable-helm|kustomization\.yaml is empty|nothing selected by \S+`)

// build returns the objects of the kustomization in a folder. An error quotes no value.
func (r Reader) build(dir string) (string, error) {
	r.visit(dir)
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(visitedFiles{filesys.MakeFsOnDisk(), r}, dir)
	var text []byte
	if err == nil {
		text, err = built.AsYaml()
	}
	if err != nil {
		return "", fmt.Errorf("build the kustomization in %s: %s", dir, flux.ReasonOf(err, faults))
	}
	return string(text), nil
}

// visitedFiles are the files on the disk, whose reads are visits.
type visitedFiles struct {
	filesys.FileSystem

	reader Reader
}

// ReadFile implements filesys.FileSystem.
func (v visitedFiles) ReadFile(path string) ([]byte, error) {
	v.reader.visit(path)
	text, err := v.FileSystem.ReadFile(path)
	if err == nil && v.reader.Built != nil {
		v.reader.Built(path, text)
	}
	return text, err
}
