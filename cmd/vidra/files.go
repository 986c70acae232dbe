package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
)

// addFilename adds the flags that name files, as kubectl has them.
func addFilename(cmd *cobra.Command, paths *[]string, recursive *bool, usage string) {
	cmd.Flags().StringArrayVarP(paths, "filename", "f", nil, usage)
	cmd.Flags().BoolVarP(recursive, "recursive", "R", false, "also read the folders inside the folders of -f")
}

// file is a text that a command was given.
type file struct {
	// name is the path; - for the standard input.
	name string
	text string
	// objects are those of the text; nil until parseFiles.
	objects []manifest.Object
}

// manifestExtensions are the extensions of the files that are read in a folder, as by kubectl.
var manifestExtensions = []string{".yaml", ".yml", ".json"}

// readFiles reads files, the manifests in folders, and the standard input.
func readFiles(paths []string, recursive bool, in io.Reader) ([]file, error) {
	var files []file
	for _, path := range paths {
		found, err := readPath(path, recursive, in)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			if slices.ContainsFunc(files, func(other file) bool { return other.name == f.name }) {
				return nil, fmt.Errorf("%s is given twice with -f", f.name)
			}
			files = append(files, f)
		}
	}
	return files, nil
}

func readPath(path string, recursive bool, in io.Reader) ([]file, error) {
	if path == "-" {
		text, err := io.ReadAll(in)
		return []file{{name: path, text: string(text)}}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		text, err := os.ReadFile(path) //nolint:gosec // the user names it
		return []file{{name: path, text: string(text)}}, err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []file
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
		text += fmt.Sprintf("; -R also reads its %s", plural(e.folders, "folder"))
	}
	return text
}

// parseFiles reads the objects of files. Errors name the file.
func parseFiles(files []file) error {
	var all manifest.Errors
	for i := range files {
		var err error
		files[i].objects, err = manifest.Parse(files[i].text, manifest.Options{Source: files[i].name})
		if problems := (manifest.Errors)(nil); errors.As(err, &problems) {
			all = append(all, problems...)
		} else if err != nil {
			return err
		}
	}
	if len(all) > 0 {
		return all
	}
	return nil
}

// objectsOf are the objects of files.
func objectsOf(files []file) []manifest.Object {
	var all []manifest.Object
	for _, f := range files {
		all = append(all, f.objects...)
	}
	return all
}

// namesOfFiles are the names of files in a message.
func namesOfFiles(files []file) string {
	names := make([]string, 0, len(files))
	for _, f := range files {
		names = append(names, f.name)
	}
	const shown = 3
	if more := len(names) - shown; more > 1 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), more)
	}
	return strings.Join(names, ", ")
}

// partsOf returns the texts of files as the parts of one manifest, and as one text.
func partsOf(files []file) (parts []desired.Part, text string) {
	texts := make([]string, 0, len(files))
	for _, f := range files {
		name := f.name
		if len(files) == 1 {
			name = "" // as spec.manifest
		}
		parts, texts = append(parts, desired.NewPart(name, f.text, false)), append(texts, f.text)
	}
	return parts, strings.Join(texts, "\n---\n")
}
