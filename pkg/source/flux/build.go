package flux

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/fluxcd/pkg/envsubst/parse"
	"github.com/fluxcd/pkg/kustomize"
	securefs "github.com/fluxcd/pkg/kustomize/filesys"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/resource"
	kustypes "sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/source"
)

// readPath returns the texts of a path of the artifact in the directory root. apart builds kustomizations; nil for this process.
func readPath(ctx context.Context, apart Builder, root, path string, k *v1alpha1.Kustomize, vars source.Variables) ([]source.Text, error) {
	path = strings.TrimLeft(path, "/")
	if path == "" {
		path = "."
	}
	if !filepath.IsLocal(path) {
		return nil, errors.New("it leads out of the artifact")
	}
	at := filepath.Join(root, path)
	info, err := os.Lstat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errors.New("it does not exist in the artifact: correct spec.manifestFrom, or check spec.ignore of the source")
	case err != nil:
		return nil, err
	case info.Mode().IsRegular() && k == nil:
		return readFiles(root, []string{at})
	case !info.IsDir():
		return nil, errors.New("it is no directory, and spec.kustomize needs one")
	}
	files, kustomized, err := yamlFiles(at)
	switch {
	case err != nil:
		return nil, err
	case (kustomized || k != nil) && apart != nil:
		return apart(ctx, root, at, k, vars)
	case kustomized || k != nil:
		return build(root, at, k, vars)
	case len(files) == 0:
		return nil, errors.New("it has no YAML files")
	}
	texts, err := readFiles(root, files)
	if err == nil && len(texts) == 0 {
		return nil, errors.New("its YAML files have no objects")
	}
	return texts, err
}

// yamlFiles returns the YAML files below a directory in the order of their paths, and whether one of them is a kustomization.
func yamlFiles(dir string) (files []string, kustomized bool, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		if slices.Contains(konfig.RecognizedKustomizationFileNames(), entry.Name()) {
			kustomized = true
		}
		if isYAML(path) {
			files = append(files, path)
		}
		return nil
	})
	return files, kustomized, err
}

// isYAML reports whether a file is read as YAML where no kustomization names it.
func isYAML(path string) bool {
	ext := filepath.Ext(path)
	return ext == ".yaml" || ext == ".yml"
}

// readFiles returns the texts of files, without the files of a directory that have no document.
func readFiles(root string, files []string) ([]source.Text, error) {
	var texts []source.Text
	size := int64(0)
	for _, file := range files {
		info, err := os.Lstat(file)
		if err != nil {
			return nil, err
		}
		if size += info.Size(); size > maxYAML {
			return nil, fmt.Errorf("its YAML files have more than %d bytes: choose a path with fewer files", maxYAML)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if len(files) > 1 && isBlank(string(text)) {
			continue
		}
		texts = append(texts, source.Text{Label: label(root, file), Text: string(text)})
	}
	return texts, nil
}

// isBlank reports whether a text has only comments and separators.
func isBlank(text string) bool {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(strings.TrimPrefix(line, "---")); line != "" && !strings.HasPrefix(line, "#") {
			return false
		}
	}
	return true
}

// filePrefix begins the label of a file.
const filePrefix = "file "

// label names a file of the artifact.
func label(root, file string) string {
	path, err := filepath.Rel(root, file)
	if err != nil {
		return filePrefix + filepath.Base(file)
	}
	return filePrefix + path
}

// building is held during a build: kustomize has the schemas of the process in common.
var building sync.Mutex

// build returns the objects that kustomize makes of a directory, each with its place in the artifact. One build at a time runs in a process.
func build(root, dir string, k *v1alpha1.Kustomize, vars source.Variables) ([]source.Text, error) {
	building.Lock()
	defer building.Unlock()
	secure, err := securefs.MakeFsOnDiskSecure(root)
	if err != nil {
		return nil, err
	}
	settings, err := settingsOf(k, vars)
	if err != nil {
		return nil, err
	}
	scan := newGuard(secure, root)
	own, err := scan.scan(dir)
	if err != nil {
		return nil, err
	}
	text, file, _, err := kustomize.NewGenerator(root, settings).GenerateManifest(dir)
	if err != nil {
		return nil, scan.failed(dir, err)
	}
	if text, err = withOrigins(text); err != nil {
		return nil, err
	}
	memory := securefs.MakeFsInMemory(secure)
	guarded := newGuard(memory, root)
	if err := memory.WriteFile(file, text); err != nil {
		return nil, err
	}
	built, err := kustomize.Build(guarded, dir)
	if guarded.err != nil || err != nil {
		return nil, guarded.failed(dir, err)
	}
	files := parsedFiles{root: root, dir: dir, texts: guarded.files, read: map[string]*parsedFile{}}
	var texts []source.Text
	for _, res := range built.Resources() {
		text, err := files.textOf(res, own, settings, k, vars)
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	if len(texts) == 0 {
		return nil, errors.New("the kustomization makes no objects")
	}
	return texts, nil
}

// settingsOf returns the settings as the Kustomization of Flux that has the same fields.
func settingsOf(k *v1alpha1.Kustomize, vars source.Variables) (unstructured.Unstructured, error) {
	spec := map[string]any{}
	if k != nil {
		var err error
		if spec, err = runtime.DefaultUnstructuredConverter.ToUnstructured(k); err != nil {
			return unstructured.Unstructured{}, fmt.Errorf("encode spec.kustomize: %w", err)
		}
	}
	values := map[string]any{}
	for name, value := range vars.Values {
		values[name] = value
	}
	spec["postBuild"] = map[string]any{"substitute": values}
	return unstructured.Unstructured{Object: map[string]any{"spec": spec}}, nil
}

// withOrigins makes a kustomization annotate each object with its file.
func withOrigins(text []byte) ([]byte, error) {
	k := kustypes.Kustomization{}
	if err := yaml.Unmarshal(text, &k); err != nil {
		return nil, err
	}
	if !slices.Contains(k.BuildMetadata, kustypes.OriginAnnotations) {
		k.BuildMetadata = append(k.BuildMetadata, kustypes.OriginAnnotations)
	}
	return yaml.Marshal(k)
}

// originAnnotation is the annotation that withOrigins adds.
const originAnnotation = "config.kubernetes.io/origin"

// parsedFiles finds the objects of the files of an artifact. dir is the directory of the kustomization.
type parsedFiles struct {
	root, dir string
	// texts are those that kustomize has read.
	texts map[string]string
	read  map[string]*parsedFile
	// size is the number of bytes of the objects so far, or more if variables have been substituted.
	size int
}

// parsedFile is a file with its objects; empty if it is malformed.
type parsedFile struct {
	text    string
	objects []manifest.Object
}

// textOf returns an object that kustomize made, with substituted variables and common metadata. own reports that the
// annotation of origins is one of the object.
func (f *parsedFiles) textOf(res *resource.Resource, own bool, settings unstructured.Unstructured, k *v1alpha1.Kustomize, vars source.Variables) (source.Text, error) {
	made := source.Text{Label: label(f.root, f.dir)}
	annotations := res.GetAnnotations()
	origin := struct{ Path, ConfiguredIn string }{}
	if err := yaml.Unmarshal([]byte(annotations[originAnnotation]), &origin); err == nil {
		f.locate(&made, origin.Path, origin.ConfiguredIn, res.GetKind(), res.GetName())
	}
	if !own {
		delete(annotations, originAnnotation)
		if err := res.SetAnnotations(annotations); err != nil {
			return made, err
		}
	}
	before, err := res.AsYAML()
	if err != nil {
		return made, err
	}
	if f.size += max(len(before), grown(string(before), vars.Values)); f.size > maxYAML {
		return made, fmt.Errorf("%s: the objects up to %s %s have more than %d bytes with their variables: make several kustomizations of it", made.Label, res.GetKind(), res.GetName(), maxYAML)
	}
	if len(vars.Values) > 0 {
		made.Sensitive = vars.SecretIn(string(before))
		substituted, err := kustomize.SubstituteVariables(context.Background(), nil, settings, res, kustomize.SubstituteWithDryRun(true))
		if name := unfitVariable(vars); err != nil && name != "" {
			return made, fmt.Errorf("%s: no variable can be substituted, because of the name %q: remove it from spec.kustomize.substitute, or from the ConfigMap or Secret in "+
				"spec.kustomize.substituteFrom. A name has letters, digits and _, and does not begin with a digit", made.Label, display.Truncate(name, 100))
		} else if err != nil && made.Sensitive { // the error may quote it
			return made, fmt.Errorf("%s: variables cannot be substituted in %s %s (the reason is withheld, because it may quote a Secret)", made.Label, res.GetKind(), res.GetName())
		} else if err != nil {
			return made, fmt.Errorf("%s: variables cannot be substituted in %s %s: %s", made.Label, res.GetKind(), res.GetName(), ReasonOf(err))
		}
		if substituted != nil {
			res = substituted
		}
	}
	if k != nil && k.CommonMetadata != nil {
		if err := errors.Join(res.SetLabels(merged(res.GetLabels(), k.CommonMetadata.Labels)), res.SetAnnotations(merged(res.GetAnnotations(), k.CommonMetadata.Annotations))); err != nil {
			return made, err
		}
	}
	text, err := res.AsYAML()
	made.Text = string(text)
	return made, err
}

// variableName matches the names of variables. With another name among them, none is substituted.
var variableName = regexp.MustCompile(`^[_[:alpha:]][_[:alpha:][:digit:]]*$`)

// unfitVariable returns the first of the names that no variable may have; empty if there is none.
func unfitVariable(vars source.Variables) string {
	for _, name := range slices.Sorted(maps.Keys(vars.Values)) {
		if !variableName.MatchString(name) {
			return name
		}
	}
	return ""
}

// grown returns how many bytes a text has at most when variables are substituted; 0 if none are.
func grown(text string, values map[string]string) int {
	tree, err := parse.Parse(text)
	if len(values) == 0 || err != nil {
		return 0
	}
	return bytesOf(tree.Root, values)
}

// bytesOf is how many bytes a part of a text has at most when variables are substituted, up to a number far beyond maxYAML.
func bytesOf(part parse.Node, values map[string]string) int {
	all := 0
	switch part := part.(type) {
	case *parse.TextNode:
		return len(part.Value)
	case *parse.ListNode:
		for _, inner := range part.Nodes {
			all += bytesOf(inner, values)
		}
	case *parse.FuncNode:
		all = len(values[part.Param])
		replaced := 0
		for _, argument := range part.Args {
			size := bytesOf(argument, values)
			replaced = size * (len(values[part.Param]) + 1)
			all += size
		}
		if part.Name == "//" { // each byte may be replaced by the last argument
			all += replaced
		}
	}
	return min(all, 1<<32)
}

// merged returns values with the values of others.
func merged(values, others map[string]string) map[string]string {
	all := maps.Clone(values)
	if all == nil && len(others) > 0 {
		all = map[string]string{}
	}
	maps.Copy(all, others)
	return all
}

// locate sets the place of an object: the file that has it, or that configures its generator. Paths are relative to the kustomization.
func (f *parsedFiles) locate(made *source.Text, path, configuredIn, kind, name string) {
	if path == "" {
		if configuredIn != "" {
			made.Label = label(f.root, filepath.Join(f.dir, configuredIn))
		}
		return
	}
	at := filepath.Join(f.dir, path)
	made.Label = label(f.root, at)
	file := f.read[at]
	if file == nil {
		file = &parsedFile{text: f.texts[at]}
		f.read[at] = file
		file.objects, _ = manifest.Parse(file.text, manifest.Options{}) // of one that is no manifest, lines are not known
	}
	var found *manifest.Object
	for i, obj := range file.objects {
		// The kustomization may have changed the name: the longest one that is left of it counts.
		if obj.GetKind() == kind && strings.Contains(name, obj.GetName()) && (found == nil || len(obj.GetName()) > len(found.GetName())) {
			found = &file.objects[i]
		}
	}
	if found == nil && len(file.objects) == 1 {
		found = &file.objects[0]
	}
	if found != nil {
		made.Origin = &source.Origin{Text: file.text, Position: found.Position}
	}
}
