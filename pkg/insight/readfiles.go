package insight

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vidra-operator/vidra/pkg/internal/display"
)

// manifestExtensions are the extensions of the files that are read in a folder, as by kubectl.
var manifestExtensions = []string{".yaml", ".yml", ".json"}

// ReadFiles reads files, the manifests in folders, and the standard input for -, as kubectl does.
func ReadFiles(paths []string, recursive bool, in io.Reader) ([]File, error) {
	var files []File
	for _, path := range paths {
		found, err := readPath(path, recursive, in)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			if slices.ContainsFunc(files, func(other File) bool { return other.Name == f.Name }) {
				return nil, fmt.Errorf("%s is given twice with -f", f.Name)
			}
			files = append(files, f)
		}
	}
	return files, nil
}

func readPath(path string, recursive bool, in io.Reader) ([]File, error) {
	if path == "-" {
		text, err := io.ReadAll(in)
		return []File{{Name: path, Text: string(text)}}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		text, err := os.ReadFile(path) //nolint:gosec // the user names it
		return []File{{Name: path, Text: string(text)}}, err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []File
	folders := 0
	for _, entry := range entries {
		inside := filepath.Join(path, entry.Name())
		info, err := os.Stat(inside) // ConfigMaps are mounted as symbolic links
		switch {
		case err != nil:
			return nil, err
		case info.IsDir() && !recursive:
			folders++
			continue
		case info.IsDir():
			if strings.HasPrefix(entry.Name(), ".") {
				continue
			}
		case !slices.Contains(manifestExtensions, filepath.Ext(inside)):
			continue
		}
		found, err := readPath(inside, recursive, in)
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
