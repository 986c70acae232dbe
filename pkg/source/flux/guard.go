package flux

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/provider"
	"sigs.k8s.io/kustomize/api/resmap"
	kustypes "sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/kio"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/pkg/manifest"
)

// Bounds on a build.
const (
	// maxReads is how many files a build reads, and maxYAML how many bytes, those that it reads again included.
	maxReads = 10_000
	maxYAML  = 8 << 20
	// maxNodes is how many values they have, and maxExpanded the bytes of these, when all aliases are expanded. maxDepth is how deep they are nested.
	maxNodes    = 1_000_000
	maxExpanded = 2 * maxYAML
	maxDepth    = 500
)

// guard is the file system of a build. It refuses a kustomization before kustomize reads it, if that would send a request or start a program:
// kustomize fetches the URLs and repositories that a kustomization names, with each file system. It also bounds aliases and the numbers of objects
// and patches, which are unbounded in kustomize.
type guard struct {
	filesys.FileSystem

	root string
	// files are the texts that were read, and last their paths in the order of reads.
	files map[string]string
	last  []string
	// The numbers are sums of the files that were read; err is the first refusal.
	reads, size, nodes, expanded, objects int
	err                                   error
}

// newGuard returns a guard of a file system.
func newGuard(files filesys.FileSystem, root string) *guard {
	return &guard{FileSystem: files, root: root, files: map[string]string{}}
}

// ReadFile implements filesys.FileSystem.
func (g *guard) ReadFile(path string) ([]byte, error) {
	if g.err != nil {
		return nil, g.err
	}
	text, err := g.read(path)
	if err != nil {
		return nil, err
	}
	if _, known := g.files[path]; !known {
		g.files[path] = string(text)
	}
	g.last = append(g.last, path)
	if slices.Contains(konfig.RecognizedKustomizationFileNames(), filepath.Base(path)) {
		err = g.check(filepath.Dir(path), text)
	} else {
		err = g.count(text)
	}
	if err != nil {
		g.err = fmt.Errorf("%s: %w", label(g.root, path), err)
	}
	return text, g.err
}

// read reads a file within the bounds on all of them.
func (g *guard) read(path string) ([]byte, error) {
	g.reads++
	if rel, err := filepath.Rel(g.root, path); err == nil && filepath.IsLocal(rel) {
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() > int64(maxYAML-g.size) {
			g.size = maxYAML + 1
		}
	}
	if g.reads > maxReads || g.size > maxYAML {
		g.err = fmt.Errorf("the kustomization reads more than %d files or %d bytes: split it", maxReads, maxYAML)
		return nil, g.err
	}
	text, err := g.FileSystem.ReadFile(path)
	g.size += len(text)
	return text, err
}

// count adds the objects of a text, and the values that kustomize makes of its aliases, and returns an error if there are too many.
func (g *guard) count(text []byte) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("it is no YAML that kustomize can read")
		}
	}()
	nodes, err := (&kio.ByteReader{Reader: bytes.NewReader(text), OmitReaderAnnotations: true}).Read()
	if err != nil { // kustomize, which reads it in the same way, expands nothing of it
		g.objects++
		return g.tooMany()
	}
	for _, node := range nodes {
		if !g.expand(node.YNode(), 0) {
			return fmt.Errorf("the files that the kustomization reads have more than %d values or %d bytes with their aliases, or values that are nested deeper than %d: use fewer aliases", maxNodes, maxExpanded, maxDepth)
		}
		g.objects += objectsIn(node.YNode())
	}
	return g.tooMany()
}

// tooMany returns an error if the objects are too many.
func (g *guard) tooMany() error {
	if g.objects > manifest.MaxObjects {
		return fmt.Errorf("the kustomization has more than %d objects and patches: make several of it", manifest.MaxObjects)
	}
	return nil
}

// expand counts a node with all that its aliases stand for, and reports whether it is within the bounds.
func (g *guard) expand(n *kyaml.Node, depth int) bool {
	if n.Alias != nil {
		return depth <= maxDepth && g.expand(n.Alias, depth+1)
	}
	g.nodes++
	g.expanded += len(n.Value) + len(n.HeadComment) + len(n.LineComment) + len(n.FootComment)
	if g.nodes > maxNodes || g.expanded > maxExpanded || depth > maxDepth {
		return false
	}
	return !slices.ContainsFunc(n.Content, func(inner *kyaml.Node) bool { return !g.expand(inner, depth+1) })
}

// objectsIn returns how many objects kustomize makes of a node: it replaces lists by their items.
func objectsIn(n *kyaml.Node) int {
	if n.Alias != nil {
		n = n.Alias
	}
	objects := 0
	for i := 0; i+1 < len(n.Content) && n.Kind == kyaml.MappingNode; i += 2 {
		if n.Content[i].Value != "items" {
			continue
		}
		items := n.Content[i+1]
		if items.Alias != nil {
			items = items.Alias
		}
		for _, item := range items.Content {
			objects += objectsIn(item)
		}
	}
	return max(1, objects)
}

// scan reads the files of a directory that make its kustomization: the kustomization that it has, or all of its YAML files. own reports that
// there is one that asks for the annotation of origins.
func (g *guard) scan(dir string) (own bool, err error) {
	kustomization := func(dir string) string {
		for _, name := range konfig.RecognizedKustomizationFileNames() {
			if at := filepath.Join(dir, name); g.Exists(at) && !g.IsDir(at) {
				return at
			}
		}
		return ""
	}
	if at := kustomization(dir); at != "" {
		text, err := g.ReadFile(at)
		k := kustypes.Kustomization{}
		return err == nil && k.Unmarshal(text) == nil && slices.Contains(k.BuildMetadata, kustypes.OriginAnnotations), err
	}
	return false, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && kustomization(path) != "":
			return filepath.SkipDir
		case entry.Type().IsRegular() && isYAML(path):
			_, err = g.ReadFile(path)
		}
		return err
	})
}

// harmless are the parts of errors of kustomize without values: names of objects and fields, and faults of the syntax.
var harmless = regexp.MustCompile(`yaml: line \d+: [a-z ]+|json: unknown field "[^"]*"|json: cannot unmarshal \w+ into Go struct field \S+|` +
	`no matches for Id \S+|already registered id: \S+|no resource matches strategic merge patch "[^"]*"|missing metadata\.name|cycle detected|` +
	`bad substitution|missing closing brace|unable to parse [a-z ]+`)

// ReasonOf returns the harmless parts of an error, and the parts that match also: kustomize prints whole objects, which may be Secrets.
func ReasonOf(err error, also ...*regexp.Regexp) string {
	var found []string
	for _, part := range append(also, harmless) {
		found = append(found, part.FindAllString(err.Error(), -1)...)
	}
	slices.Sort(found)
	return strings.Join(append(slices.Compact(found), "(the rest is withheld, because it may quote a Secret: run kubectl kustomize on the directory to read it)"), " ")
}

// failed returns the error of a build that kustomize ended with err: the refusal of the guard, or the reason with the last file of those that err names.
func (g *guard) failed(dir string, err error) error {
	if g.err != nil { // kustomize reports another error then
		return g.err
	}
	at := label(g.root, dir)
	for _, path := range slices.Backward(g.last) {
		if strings.Contains(err.Error(), filepath.Base(path)) {
			at = label(g.root, path)
			break
		}
	}
	return fmt.Errorf("%s: kustomize cannot build it: %s", at, ReasonOf(err))
}

// check returns why a kustomization in a directory is refused; nil if it names files of the artifact alone.
func (g *guard) check(dir string, text []byte) error {
	k := kustypes.Kustomization{}
	if err := k.Unmarshal(text); err != nil {
		return errors.New("it is no kustomization: " + ReasonOf(err))
	}
	if len(k.HelmCharts)+len(k.HelmChartInflationGenerator) > 0 {
		return errors.New("helmCharts are not rendered: render the charts with helm template, and add the result to the artifact")
	}
	for _, path := range slices.Concat(k.Resources, k.Bases, k.Components) { //nolint:staticcheck // kustomize reads the deprecated fields, too
		if isRemote(path) {
			return remote(path)
		}
		if !g.Exists(filepath.Join(dir, path)) {
			return fmt.Errorf("%q does not exist in the artifact", path)
		}
	}
	files := slices.Concat(k.Crds, k.Configurations, []string{k.OpenAPI["path"]})
	g.objects += len(k.ConfigMapGenerator) + len(k.SecretGenerator)
	var inline []string
	for _, patch := range slices.Concat(k.Patches, k.PatchesJson6902) { //nolint:staticcheck // see above
		files, inline = append(files, patch.Path), append(inline, patch.Patch)
	}
	for _, patch := range k.PatchesStrategicMerge { //nolint:staticcheck // see above
		files, inline = append(files, string(patch)), append(inline, string(patch))
	}
	for _, patch := range inline {
		if err := g.count([]byte(patch)); err != nil {
			return err
		}
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
		return remote(files[i])
	}
	for _, plugin := range slices.Concat(k.Generators, k.Transformers, k.Validators) {
		if err := g.checkPlugin(dir, plugin); err != nil {
			return err
		}
	}
	return g.tooMany()
}

// isInline reports whether kustomize reads the configuration of a plugin in a kustomization as objects. All else it takes for a path.
func isInline(text []byte) (is bool) {
	defer func() { _ = recover() }() // of a fault in the library; kustomize fails then, too
	_, err := resmap.NewFactory(provider.NewDefaultDepProvider().GetResourceFactory()).NewResMapFromBytes(text)
	return err == nil
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
	if err := g.count(text); err != nil {
		return err
	}
	if !isInline(text) {
		at := filepath.Join(dir, plugin)
		if isRemote(plugin) || !g.Exists(at) || g.IsDir(at) {
			return fmt.Errorf("%q is no file of the artifact, and generators, transformers and validators must be files of it", plugin)
		}
		var err error
		if text, err = g.read(at); err != nil {
			return err
		}
		if err := g.count(text); err != nil {
			return err
		}
	}
	for document := range strings.SplitSeq(string(text), "\n---") {
		var config any
		if err := yaml.Unmarshal([]byte(document), &config); err != nil {
			return errors.New("a generator, transformer or validator cannot be read: " + ReasonOf(err))
		}
		if err := g.checkValue(config, false); err != nil {
			return err
		}
	}
	return nil
}

// pathFields are the fields of the builtin plugins that name files.
var pathFields = []string{"files", "envs", "env", "path", "paths"}

// namesFiles reports whether a field is one of pathFields. The case is ignored as encoding/json ignores it: other letters may count as s.
func namesFiles(field string) bool {
	return slices.ContainsFunc(pathFields, func(one string) bool { return strings.EqualFold(one, field) })
}

// checkValue returns why a value in the configuration of a plugin is refused: a URL that it names as a file, or a patch. isPath reports that it is
// in a field with files.
func (g *guard) checkValue(value any, isPath bool) error {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			if err := g.checkValue(inner, isPath || namesFiles(name)); err != nil {
				return err
			}
		}
	case []any:
		for _, inner := range value {
			if err := g.checkValue(inner, isPath); err != nil {
				return err
			}
		}
	case string:
		_, path, _ := strings.Cut(value, "=")
		if isPath && (isURL(value) || isURL(path)) {
			return remote(value)
		}
		if strings.Contains(value, "*") { // perhaps a patch with aliases
			return g.count([]byte(value))
		}
	}
	return nil
}

// remote is the error of a path that is no file of the artifact. It has no credentials of a URL.
func remote(path string) error {
	path, _, _ = strings.Cut(path[strings.LastIndex(path, "@")+1:], "?")
	return fmt.Errorf("%q is remote, and a kustomization may name files of the artifact alone: add it to the artifact", path)
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
