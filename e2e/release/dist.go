package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

// dist replaces the folder dist by the files of the release. Only a version of the form v1.2.3,
// of a checkout without changes, is released.
func (r release) dist(ctx context.Context) error {
	_, err := version.ParseSemantic(r.version)
	if err != nil || !strings.HasPrefix(r.version, "v") || strings.HasSuffix(r.version, "-dirty") {
		return fmt.Errorf("%q is no version to release: commit all changes and set a tag such as v1.2.3, see CONTRIBUTING.md", r.version)
	}
	dir := filepath.Join(r.root, "dist")
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return r.write(ctx, filepath.Join(r.root, "bin"), dir)
}

// write writes the files of the release to a folder, which it creates. The programs and the image
// are built in the folder work and stay there: a program that is up to date is not linked again.
func (r release) write(ctx context.Context, work, dir string) error {
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	files := []file{r.changelog()}
	for _, part := range []func(context.Context, string) ([]file, error){r.operatorFiles, r.cliFiles} {
		made, err := part(ctx, work)
		if err != nil {
			return err
		}
		files = append(files, made...)
	}
	sums := file{name: "SHA256SUMS"} // for sha256sum -c
	for _, f := range files {
		sums.content = fmt.Appendf(sums.content, "%x  %s\n", sha256.Sum256(f.content), f.name)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, f := range append(files, sums) {
		if err := os.WriteFile(filepath.Join(dir, f.name), f.content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// operatorFiles returns the image, the manifests and the chart that install it, and an SBOM for each platform.
func (r release) operatorFiles(ctx context.Context, work string) (files []file, err error) {
	images, err := r.buildImages(ctx, work)
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(work, "image")
	digest, err := r.writeLayout(folder, r.newIndex(images))
	if err != nil {
		return nil, err
	}
	layout, err := readFolder(folder)
	if err != nil {
		return nil, err
	}
	var image bytes.Buffer
	if err := writeTar(&image, r.commit.time, layout...); err != nil {
		return nil, err
	}
	files = append(files, file{name: operatorName + "_image.tar", content: image.Bytes()})
	for _, manifest := range []struct{ name, folder string }{{"install.yaml", "default"}, {"install-restricted.yaml", "restricted"}} {
		text, err := render(filepath.Join(r.root, "config", manifest.folder), r.image.String()+"@"+digest.String())
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: manifest.name, content: text})
	}
	chart, err := r.chart(digest.String())
	if err != nil {
		return nil, err
	}
	files = append(files, chart)
	roots, err := rootsComponent()
	if err != nil {
		return nil, err
	}
	for _, on := range r.operator {
		sbom, err := r.newSBOM(on.file(operatorName), filepath.Join(work, on.file(operatorName)), roots)
		if err != nil {
			return nil, err
		}
		files = append(files, sbom)
	}
	return files, nil
}

// render renders a kustomization with an image for its Deployment.
func render(folder, image string) ([]byte, error) {
	objs, err := testenv.Render(folder)
	if err != nil {
		return nil, err
	}
	var text []byte
	for _, obj := range objs {
		if obj.GetKind() == "Deployment" {
			path := []string{"spec", "template", "spec", "containers"}
			containers, _, err := unstructured.NestedSlice(obj.Object, path...)
			if err != nil {
				return nil, err
			}
			containers[0].(map[string]any)["image"] = image
			if err := unstructured.SetNestedSlice(obj.Object, containers, path...); err != nil {
				return nil, err
			}
		}
		one, err := yaml.Marshal(obj.Object)
		if err != nil {
			return nil, err
		}
		text = fmt.Appendf(text, "---\n%s", one)
	}
	return text, nil
}

// changelog returns the entry of the version in a changelog.
func (r release) changelog() file {
	text := fmt.Appendf(nil, "## %s (%s)\n\n", r.version, r.commit.time.Format("2006-01-02"))
	if r.commit.since != "" {
		text = fmt.Appendf(text, "Changes since %s:\n\n", r.commit.since)
	}
	for _, subject := range r.commit.subjects {
		text = fmt.Appendf(text, "- %s\n", subject)
	}
	return file{name: "changelog.md", content: text}
}
