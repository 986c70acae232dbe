package insight

import (
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// Faults are the problems that files have without a cluster.
type Faults struct {
	// Checked counts the checked VidraResources, or objects; empty for none.
	Checked string `json:"checked"`
	// Problems begin with the name of their file.
	Problems []string `json:"problems"`
}

// Lint checks files: the fields of VidraResources, the YAML of their manifests, the identity of each object, and that each ignore rule
// matches something. It sends no request.
func Lint(files []File) Faults {
	faults := Faults{Problems: []string{}}
	add := func(name string, more ...string) {
		for _, problem := range more {
			faults.Problems = append(faults.Problems, name+": "+problem)
		}
	}
	parsed := make(parsedFiles, 0, len(files))
	for _, f := range files {
		objects, err := manifest.Parse(f.Text, manifest.Options{})
		if err != nil {
			add(f.Name, problemsIn(err)...)
		}
		parsed = append(parsed, parsedFile{f, objects})
	}
	objects, resources := parsed.objects(), 0
	seen := map[object.Identity]string{}
	for _, f := range parsed {
		for _, obj := range f.objects {
			id := object.IdentityIn(obj.Unstructured)
			if first, twice := seen[id]; twice && first != f.Name {
				add(f.Name, fmt.Sprintf("%s: %s: %s has this object, too: remove one", obj.Position, id, first))
			}
			seen[id] = f.Name
			if !isVidraResource(obj) {
				continue
			}
			resources++
			for _, problem := range lintVidraResource(obj, objects) {
				add(f.Name, fmt.Sprintf("%s: VidraResource %s: %s", obj.Position, obj.GetName(), problem))
			}
		}
	}
	switch {
	case len(objects) == 0 && len(faults.Problems) == 0:
		faults.Problems = []string{FileNames(files) + ": no object found"}
	case len(objects) == 0:
	case resources == 0:
		faults.Checked = display.Plural(len(objects), "object")
	default:
		faults.Checked = display.Plural(resources, "VidraResource")
	}
	return faults
}

// problemsIn are the errors of a manifest, one by one.
func problemsIn(err error) []string {
	var all manifest.Errors
	if !errors.As(err, &all) {
		return []string{err.Error()}
	}
	var problems []string
	for _, one := range all {
		problems = append(problems, one.Error())
	}
	return problems
}

// lintVidraResource checks a VidraResource, with the objects of all files.
func lintVidraResource(obj manifest.Object, objects []manifest.Object) []string {
	body, err := obj.MarshalJSON()
	if err != nil {
		return []string{err.Error()}
	}
	vr := &v1alpha1.VidraResource{}
	if err := yaml.UnmarshalStrict(body, vr); err != nil {
		return []string{strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error unmarshaling JSON: while decoding JSON: "), "json: ")}
	}
	parts := []desired.Part{desired.NewPart("spec.manifest", vr.Spec.Manifest, false)}
	complete := true
	for _, source := range vr.Spec.ManifestFrom {
		text, found := textIn(objects, vr, source)
		if !found {
			complete = complete && source.Optional
			continue
		}
		name := fmt.Sprintf("%s %s, key %s", source.Kind, source.Name, source.Key)
		parts = append(parts, desired.NewPart(name, text, source.Kind == "Secret"))
	}
	err = desired.Check(vr, parts)
	if err == nil || !complete && !errors.As(err, new(manifest.Errors)) {
		return nil // the rest of the manifest is in the cluster
	}
	return problemsIn(err)
}
