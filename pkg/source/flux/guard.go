package flux

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	kustypes "sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// maxReads is how many files a build reads, those that it reads again included.
const maxReads = 10_000

// guard is the file system of a build. It refuses a kustomization before kustomize reads it, if that would send a request or start a program:
// kustomize fetches the URLs and repositories that a kustomization names, with each file system.
type guard struct {
	filesys.FileSystem

	root string
	// reads and size are of the files that were read; err is the first refusal.
	reads, size int
	err         error
}

// ReadFile implements filesys.FileSystem.
func (g *guard) ReadFile(path string) ([]byte, error) {
	if g.err != nil {
		return nil, g.err
	}
	text, err := g.FileSystem.ReadFile(path)
	if err != nil {
		return nil, err
	}
	g.reads, g.size = g.reads+1, g.size+len(text)
	switch {
	case g.reads > maxReads || g.size > maxYAML:
		g.err = fmt.Errorf("the kustomization reads more than %d files or %d bytes: split it", maxReads, maxYAML)
	case slices.Contains(konfig.RecognizedKustomizationFileNames(), filepath.Base(path)):
		g.err = g.check(filepath.Dir(path), text)
		if g.err != nil {
			g.err = fmt.Errorf("%s: %w", label(g.root, path), g.err)
		}
	}
	return text, g.err
}

// check returns why a kustomization in a directory is refused; nil if it names files of the artifact alone.
func (g *guard) check(dir string, text []byte) error {
	k := kustypes.Kustomization{}
	if err := k.Unmarshal(text); err != nil {
		return err
	}
	for _, path := range slices.Concat(k.Resources, k.Bases, k.Components) {
		if isRemote(path) {
			return fmt.Errorf("%q is remote, and a kustomization may name files of the artifact alone: add it to the artifact", path)
		}
		if !g.Exists(filepath.Join(dir, path)) {
			return fmt.Errorf("%q does not exist in the artifact", path)
		}
	}
	files := slices.Concat(k.Crds, k.Configurations, []string{k.OpenAPI["path"]})
	for _, patch := range slices.Concat(k.Patches, k.PatchesJson6902) {
		files = append(files, patch.Path)
	}
	for _, patch := range k.PatchesStrategicMerge {
		files = append(files, string(patch))
	}
	for _, replacement := range k.Replacements {
		files = append(files, replacement.Path)
	}
	for _, generated := range k.ConfigMapGenerator {
		files = append(files, filesOf(generated.KvPairSources)...)
	}
	for _, generated := range k.SecretGenerator {
		files = append(files, filesOf(generated.KvPairSources)...)
	}
	if i := slices.IndexFunc(files, isURL); i >= 0 {
		return fmt.Errorf("%q is remote, and a kustomization may name files of the artifact alone: add it to the artifact", files[i])
	}
	for _, plugin := range slices.Concat(k.Generators, k.Transformers, k.Validators) {
		if err := g.checkPlugin(dir, plugin); err != nil {
			return err
		}
	}
	return nil
}

// filesOf returns the files that a generator names, without their keys.
func filesOf(s kustypes.KvPairSources) []string {
	files := slices.Concat(s.EnvSources, []string{s.EnvSource})
	for _, file := range s.FileSources {
		files = append(files, file)
		if _, path, found := strings.Cut(file, "="); found {
			files = append(files, path)
		}
	}
	return files
}

// checkPlugin returns why the configuration of a generator, transformer or validator is refused: text of the kustomization, or a file.
// Another kustomization could make any configuration, and is refused.
func (g *guard) checkPlugin(dir, plugin string) error {
	text := []byte(plugin)
	if !strings.Contains(plugin, "\n") {
		at := filepath.Join(dir, plugin)
		if isRemote(plugin) || !g.Exists(at) || g.IsDir(at) {
			return fmt.Errorf("%q is no file of the artifact, and generators, transformers and validators must be files of it", plugin)
		}
		var err error
		if text, err = g.FileSystem.ReadFile(at); err != nil {
			return err
		}
	}
	for document := range strings.SplitSeq(string(text), "\n---") {
		var config any
		if err := yaml.Unmarshal([]byte(document), &config); err != nil {
			return fmt.Errorf("a generator, transformer or validator cannot be read: %w", err)
		}
		if url := remoteIn(config, false); url != "" {
			return fmt.Errorf("%q is remote, and a kustomization may name files of the artifact alone: add it to the artifact", url)
		}
	}
	return nil
}

// pathFields are the fields of the builtin plugins that name files, in lower case, as the case does not count.
var pathFields = []string{"files", "envs", "env", "path", "paths"}

// remoteIn returns a URL that the configuration of a plugin names as a file; empty if there is none. isPath reports that value is in a field with files.
func remoteIn(value any, isPath bool) string {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			if url := remoteIn(inner, isPath || slices.Contains(pathFields, strings.ToLower(name))); url != "" {
				return url
			}
		}
	case []any:
		for _, inner := range value {
			if url := remoteIn(inner, isPath); url != "" {
				return url
			}
		}
	case string:
		_, path, _ := strings.Cut(value, "=")
		if isPath && (isURL(value) || isURL(path)) {
			return value
		}
	}
	return ""
}

// isURL reports whether kustomize fetches a file.
func isURL(path string) bool {
	u, err := url.Parse(path)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https")
}

// isRemote reports whether kustomize may fetch a file, or clone a repository. It is true for all paths with the characters of a URL.
func isRemote(path string) bool {
	lower := strings.ToLower(path)
	return strings.ContainsAny(path, ":@?") || strings.HasPrefix(lower, "github.com") || strings.HasPrefix(lower, "www.github.com") || isURL(path) || path == string(os.PathSeparator)
}
