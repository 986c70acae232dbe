package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	// operatorName is the name of the program in the image.
	operatorName = "vidra-operator"
	// certificatesFile is the first file in which Go looks for the roots that the system trusts.
	certificatesFile = "etc/ssl/certs/ca-certificates.crt"
	// nonRoot is the user and the group, as in the Deployment.
	nonRoot = "65532:65532"
)

// buildImages builds the operator for each platform, below dir, and returns the images.
func (r release) buildImages(ctx context.Context, dir string) (map[platform]v1.Image, error) {
	images := map[platform]v1.Image{}
	for _, on := range r.operator {
		target := filepath.Join(dir, on.file(operatorName))
		if err := r.buildProgram(ctx, "operator", on, target); err != nil {
			return nil, err
		}
		program, err := os.ReadFile(target)
		if err != nil {
			return nil, err
		}
		if images[on], err = r.newImage(on, program); err != nil {
			return nil, fmt.Errorf("making the image for %s: %w", on, err)
		}
	}
	return images, nil
}

// newImage returns the image of the operator for a platform. Its base is empty.
func (r release) newImage(on platform, program []byte) (v1.Image, error) {
	// The certificates have a layer of their own, below the program: it is the same in many versions.
	trusted, err := newLayer(file{"etc/", 0o755, nil}, file{"etc/ssl/", 0o755, nil}, file{"etc/ssl/certs/", 0o755, nil},
		file{certificatesFile, 0o644, certificates()})
	if err != nil {
		return nil, err
	}
	operator, err := newLayer(file{operatorName, 0o755, program})
	if err != nil {
		return nil, err
	}
	created := v1.Time{Time: r.commit.time}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(base,
		mutate.Addendum{Layer: trusted, History: v1.History{CreatedBy: "certificates", Created: created}},
		mutate.Addendum{Layer: operator, History: v1.History{CreatedBy: operatorName, Created: created}})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = on.os, on.arch, created
	config.Config = v1.Config{User: nonRoot, Entrypoint: []string{"/" + operatorName}, Labels: r.labels()}
	return mutate.ConfigFile(image, config)
}

// newIndex returns the index of the images: one digest for all platforms.
func (r release) newIndex(images map[platform]v1.Image) v1.ImageIndex {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, on := range r.operator {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: images[on], Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: on.os, Architecture: on.arch}},
		})
	}
	return mutate.Annotations(index, r.labels()).(v1.ImageIndex) // it returns what it got
}

// writeLayout replaces a folder by the OCI layout of an index, and returns its digest.
// https://github.com/opencontainers/image-spec/blob/main/image-layout.md
func (r release) writeLayout(dir string, index v1.ImageIndex) (v1.Hash, error) {
	if err := os.RemoveAll(dir); err != nil {
		return v1.Hash{}, err
	}
	written, err := layout.Write(dir, empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	err = written.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": r.image.TagStr(), // which podman and skopeo read
		"io.containerd.image.name":          r.image.Name(),   // which ctr reads
	}))
	if err != nil {
		return v1.Hash{}, err
	}
	return index.Digest()
}

// labels are the labels of the images and the annotations of their index:
// https://github.com/opencontainers/image-spec/blob/main/annotations.md
func (r release) labels() map[string]string {
	const prefix = "org.opencontainers.image."
	return map[string]string{
		prefix + "title":    operatorName,
		prefix + "source":   source,
		prefix + "version":  r.version,
		prefix + "revision": r.commit.revision,
		prefix + "created":  r.commit.time.Format(time.RFC3339),
		prefix + "licenses": licenses,
	}
}

// certificates returns the roots that Mozilla trusts, in PEM. Roots that it trusts with
// constraints are left out, because PEM cannot hold a constraint.
func certificates() (text []byte) {
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})...)
		}
	}
	return text
}

// newLayer returns a layer with files. Their time is 0, so that a layer with the same content
// is the same in each version.
func newLayer(files ...file) (v1.Layer, error) {
	var content bytes.Buffer
	if err := writeTar(&content, time.Unix(0, 0), files...); err != nil {
		return nil, err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil }
	return tarball.LayerFromOpener(opener, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}
