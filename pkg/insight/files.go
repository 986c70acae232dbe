package insight

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/source"
)

// File is a text with VidraResources, or with the objects of one.
type File struct {
	// Name is the name in messages: the path, or - for the standard input.
	Name string
	Text string
}

// parsedFile is a file with its objects.
type parsedFile struct {
	file File

	objects []manifest.Object
}

// parsedFiles are files in the order of the arguments.
type parsedFiles []parsedFile

// parseFiles reads the objects of files. Errors name the file.
func parseFiles(files []File) (parsedFiles, error) {
	var all manifest.Errors
	parsed := make(parsedFiles, 0, len(files))
	for _, f := range files {
		objects, err := manifest.Parse(f.Text, manifest.Options{Source: f.Name})
		if problems, are := errors.AsType[manifest.Errors](err); are {
			all = append(all, problems...)
		} else if err != nil {
			return nil, err
		}
		parsed = append(parsed, parsedFile{f, objects})
	}
	if len(all) > 0 {
		return nil, all
	}
	return parsed, nil
}

// objects are the objects of all files.
func (files parsedFiles) objects() []manifest.Object {
	var all []manifest.Object
	for _, f := range files {
		all = append(all, f.objects...)
	}
	return all
}

// parts returns the texts of the files as the parts of one manifest, and as one text.
func (files parsedFiles) parts() (parts []desired.Part, text string) {
	texts := make([]string, 0, len(files))
	for _, f := range files {
		name := f.file.Name
		if len(files) == 1 {
			name = "" // as spec.manifest
		}
		parts, texts = append(parts, desired.NewPart(name, f.file.Text, false)), append(texts, f.file.Text)
	}
	return parts, strings.Join(texts, "\n---\n")
}

// FileNames returns the names of files for a message.
func FileNames(files []File) string {
	names := make([]string, 0, len(files))
	for _, f := range files {
		names = append(names, f.Name)
	}
	const shown = 3
	if more := len(names) - shown; more > 1 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), more)
	}
	return strings.Join(names, ", ")
}

// isVidraResource reports whether an object of a file is a VidraResource.
func isVidraResource(obj manifest.Object) bool {
	gvk := obj.GroupVersionKind()
	return gvk.Group == v1alpha1.GroupVersion.Group && gvk.Kind == v1alpha1.Kind
}

// textIn returns the part of a manifest in a ConfigMap or Secret of the same files. Objects without a namespace are applied to in.
func textIn(objects []manifest.Object, in string, vr *v1alpha1.VidraResource, from v1alpha1.ManifestSource) (text string, found bool) {
	key := source.KeyOf(vr, from)
	for _, obj := range objects {
		if obj.GetKind() != from.Kind || obj.GetAPIVersion() != "v1" || obj.GetName() != key.Name || cmp.Or(obj.GetNamespace(), in) != key.Namespace {
			continue
		}
		texts, data, err := source.Values(from.Kind, obj.Object)
		if text, found := texts[from.Key]; found || err != nil {
			return text, found
		}
		value, found := data[from.Key]
		return string(value), found
	}
	return "", false
}
