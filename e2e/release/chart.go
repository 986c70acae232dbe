package main

import (
	"bytes"
	"fmt"
	"path"
	"path/filepath"
	"strings"
)

// chartName is the name of the chart, and of the folder in its archive.
const chartName = "vidra"

// chart returns the archive of the Helm chart, with the version and the image of the release.
func (r release) chart(digest string) (file, error) {
	files, err := readFolder(filepath.Join(r.root, "config", "chart"))
	if err != nil {
		return file{}, err
	}
	version := strings.TrimPrefix(r.version, "v")
	set := map[string][][2]string{
		"Chart.yaml": {
			{"\nversion: 0.0.0\n", "\nversion: " + version + "\n"},
			{"\nappVersion: dev\n", "\nappVersion: " + r.version + "\n"},
		},
		"values.yaml": {
			{"\n  repository: vidra-operator\n", "\n  repository: " + r.image.Repository.Name() + "\n"},
			{"\n  tag: dev\n", "\n  tag: " + r.image.TagStr() + "\n"},
			{"\n  digest: \"\"\n", "\n  digest: " + digest + "\n"},
		},
	}
	var packed []file
	for _, f := range files {
		if path.Base(f.name) == "kustomization.yaml" { // see .helmignore
			continue
		}
		for _, change := range set[f.name] {
			if bytes.Count(f.content, []byte(change[0])) != 1 {
				return file{}, fmt.Errorf("config/chart/%s must have one line %q, which a release replaces", f.name, strings.TrimSpace(change[0]))
			}
			f.content = bytes.Replace(f.content, []byte(change[0]), []byte(change[1]), 1)
		}
		f.name = chartName + "/" + f.name
		packed = append(packed, f)
	}
	var archive bytes.Buffer
	err = writeTarGz(&archive, r.commit.time, packed...)
	return file{name: chartName + "-" + version + ".tgz", content: archive.Bytes()}, err
}
