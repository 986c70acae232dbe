package main

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// file is a file in an archive or in a layer, or a folder if its name ends with a slash. It
// belongs to root.
type file struct {
	name    string
	mode    int64
	content []byte
}

// writeTar writes files to w as a tar archive, in their order.
func writeTar(w io.Writer, modified time.Time, files ...file) error {
	archive := tar.NewWriter(w)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: modified}
		if strings.HasSuffix(f.name, "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(f.content); err != nil {
			return err
		}
	}
	return archive.Close()
}

// writeTarGz writes files to w as a compressed tar archive, in their order.
func writeTarGz(w io.Writer, modified time.Time, files ...file) error {
	zipped, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := writeTar(zipped, modified, files...); err != nil {
		return err
	}
	return zipped.Close()
}

// readFolder returns all files below a folder, sorted by name. It follows links.
func readFolder(dir string) (files []file, err error) {
	folder := os.DirFS(dir)
	err = fs.WalkDir(folder, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if linked, err := fs.Stat(folder, name); err == nil && linked.IsDir() {
			below, err := readFolder(filepath.Join(dir, name))
			for _, f := range below {
				f.name = name + "/" + f.name
				files = append(files, f)
			}
			return err
		}
		content, err := fs.ReadFile(folder, name)
		files = append(files, file{name, 0o644, content})
		return err
	})
	return files, err
}
