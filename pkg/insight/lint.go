package insight

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/healthcheck"
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
	// Remarks begin with the name of their file, too. Each is about something without effect, which is no problem.
	Remarks []string `json:"remarks,omitempty"`
}

// Lint checks files: the fields of VidraResources, the YAML of their manifests, the identity of each object, that each ignore rule
// matches something, and the expressions of health checks. It sends no request.
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
			if first, twice := seen[id]; twice && first != f.file.Name {
				add(f.file.Name, fmt.Sprintf("%s: %s: %s has this object, too: remove one", obj.Position, id, first))
			}
			seen[id] = f.file.Name
			if !isVidraResource(obj) {
				continue
			}
			resources++
			vr, problems, remarks := lintVidraResource(obj, objects)
			for _, problem := range problems {
				add(f.file.Name, fmt.Sprintf("%s: VidraResource %s: %s", obj.Position, obj.GetName(), problem))
			}
			for _, fault := range healthcheck.Compile(vr.Spec.HealthChecks, nil).Faults() {
				at := obj.Position
				at.Line = manifest.Line(f.file.Text, at, []string{"spec", "healthChecks", strconv.Itoa(fault.Index), fault.Field})
				add(f.file.Name, fmt.Sprintf("%s: VidraResource %s: %s", at, obj.GetName(), fault))
			}
			for _, remark := range remarks {
				faults.Remarks = append(faults.Remarks, fmt.Sprintf("%s: %s: VidraResource %s: %s", f.file.Name, obj.Position, obj.GetName(), remark))
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
	all, is := errors.AsType[manifest.Errors](err)
	if !is {
		return []string{err.Error()}
	}
	var problems []string
	for _, one := range all {
		problems = append(problems, one.Error())
	}
	return problems
}

// lintVidraResource checks a VidraResource, with the objects of all files, and returns it as far as it can be read.
func lintVidraResource(obj manifest.Object, objects []manifest.Object) (vr *v1alpha1.VidraResource, problems, remarks []string) {
	vr = &v1alpha1.VidraResource{}
	body, err := obj.MarshalJSON()
	if err != nil {
		return vr, []string{err.Error()}, nil
	}
	if err := yaml.UnmarshalStrict(body, vr); err != nil {
		return vr, []string{strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error unmarshaling JSON: while decoding JSON: "), "json: ")}, nil
	}
	parts := []desired.Part{desired.NewPart("spec.manifest", vr.Spec.Manifest, false)}
	texts := []string{vr.Spec.Manifest}
	missing, complete := false, true
	for _, source := range vr.Spec.ManifestFrom {
		text, found := textIn(objects, "", vr, source)
		if !found {
			missing, complete = true, complete && source.Optional
			continue
		}
		name := fmt.Sprintf("%s %s, key %s", source.Kind, source.Name, source.Key)
		parts = append(parts, desired.NewPart(name, text, source.Kind == "Secret"))
		texts = append(texts, text)
	}
	err = desired.Check(vr, parts)
	switch {
	case err == nil && !missing:
		return vr, nil, uselessChecks(vr, texts)
	case err == nil || !complete && !errors.As(err, new(manifest.Errors)):
		return vr, nil, nil // the rest of the manifest is in the cluster
	}
	return vr, problemsIn(err), nil
}

// uselessChecks returns a remark for each health check of a kind that the manifest lacks.
func uselessChecks(vr *v1alpha1.VidraResource, texts []string) (remarks []string) {
	if len(vr.Spec.HealthChecks) == 0 {
		return nil
	}
	kinds := map[schema.GroupKind]bool{}
	for _, text := range texts {
		objects, err := manifest.Parse(text, manifest.Options{})
		if err != nil {
			continue
		}
		for _, o := range objects {
			kinds[o.GroupVersionKind().GroupKind()] = true
		}
	}
	for i, check := range vr.Spec.HealthChecks {
		if kind := healthcheck.KindOf(check); !kinds[kind] {
			remarks = append(remarks, fmt.Sprintf("spec.healthChecks[%d] has no effect: the manifest has no %s", i, kind))
		}
	}
	return remarks
}
