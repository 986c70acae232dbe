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
func build(dir string) (string, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	var text []byte
	if err == nil {
		text, err = built.AsYaml()
	}
	if err != nil {
		return "", fmt.Errorf("build the kustomization in %s: %s", dir, flux.ReasonOf(err, faults))
	}
	return string(text), nil
}
