package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/internal/display"
)

// manifestExtensions are the extensions of the files that are read in a folder, as by kubectl.
var manifestExtensions = []string{".yaml", ".yml", ".json"}

// Reader reads manifests. The zero value is usable.
type Reader struct {
	// In is the standard input, for -.
	In io.Reader
	// Recursive also reads the folders in folders.
	Recursive bool
	// Transport sends the requests for URLs. Defaults to http.DefaultTransport.
	Transport http.RoundTripper
	// Progress returns a writer that gets the bytes of a URL as they are read. size is their number, or -1 if that is unknown. Optional.
	Progress func(name string, size int64) io.Writer
	// Visit is called with each file and folder before it is read, also with those that a kustomization names; optional.
	Visit func(path string)
	// Built is called with each file of a kustomization, and its text; optional.
	Built func(path string, text []byte)
}

// IsManifest reports whether a file has the extension of a manifest.
func IsManifest(path string) bool { return slices.Contains(manifestExtensions, filepath.Ext(path)) }

// visit calls Visit.
func (r Reader) visit(path string) {
	if r.Visit != nil {
		r.Visit(path)
	}
}

// Read reads files, the manifests in folders, the standard input for -, and URLs of HTTP servers, and builds the kustomizations in folders.
func (r Reader) Read(ctx context.Context, paths, kustomizations []string) ([]insight.File, error) {
	var files []insight.File
	add := func(found []insight.File, err error, flag string) error {
		if err != nil {
			return err
		}
		for _, f := range found {
			if slices.ContainsFunc(files, func(other insight.File) bool { return other.Name == f.Name }) {
				return fmt.Errorf("%s is given twice with %s", f.Name, flag)
			}
			files = append(files, f)
		}
		return nil
	}
	for _, path := range paths {
		found, err := r.path(ctx, path)
		if err := add(found, err, "-f"); err != nil {
			return nil, err
		}
	}
	for _, dir := range kustomizations {
		text, err := r.build(dir)
		if err := add([]insight.File{{Name: "kustomization " + dir, Text: text}}, err, "-k"); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// path reads the files that a path names.
func (r Reader) path(ctx context.Context, path string) ([]insight.File, error) {
	if path == "-" {
		text, err := io.ReadAll(r.In)
		return []insight.File{{Name: path, Text: string(text)}}, err
	}
	if isURL(path) {
		f, err := r.get(ctx, path)
		return []insight.File{f}, err
	}
	r.visit(path)
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return r.folder(ctx, path)
	}
	text, err := os.ReadFile(path) //nolint:gosec // the user names it
	return []insight.File{{Name: path, Text: string(text)}}, err
}

// folder reads the manifests in a folder, in the order of their names.
func (r Reader) folder(ctx context.Context, path string) ([]insight.File, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []insight.File
	folders := 0
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".#") { // the lock of an editor, a symbolic link to nothing
			continue
		}
		inside := filepath.Join(path, entry.Name())
		info, err := os.Stat(inside) // ConfigMaps are mounted as symbolic links
		switch {
		case err != nil:
			return nil, err
		case info.IsDir() && !r.Recursive:
			folders++
			continue
		case info.IsDir():
			if strings.HasPrefix(entry.Name(), ".") {
				continue
			}
		case !IsManifest(inside):
			continue
		}
		found, err := r.path(ctx, inside)
		if err != nil && !errors.As(err, new(*emptyFolderError)) {
			return nil, err
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		return nil, &emptyFolderError{path: path, folders: folders}
	}
	return files, nil
}

// emptyFolderError reports that a folder has no manifest.
type emptyFolderError struct {
	path    string
	folders int
}

// Error implements error.
func (e *emptyFolderError) Error() string {
	text := fmt.Sprintf("folder %s has no file that ends in %s", e.path, strings.Join(manifestExtensions, ", "))
	if e.folders > 0 {
		text += fmt.Sprintf("; -R also reads its %s", display.Plural(e.folders, "folder"))
	}
	return text
}
