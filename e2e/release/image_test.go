package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/x509"
	"debug/elf"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
)

// local is the platform of images on this machine.
var local = platform{"linux", runtime.GOARCH}

// programs is the folder in which the tests build the programs, each of them once.
var programs string

func TestMain(m *testing.M) {
	os.Exit(testenv.RunTests(m, func(context.Context) (err error) {
		programs, err = os.MkdirTemp("", "vidra-release-")
		return err
	}, func() error { return os.RemoveAll(programs) }))
}

// newRelease returns what the tests build: for this machine only, or for all platforms where
// the tests run at full size.
func newRelease(t *testing.T) release {
	t.Helper()
	root, err := testenv.Root()
	require.NoError(t, err)
	tag, err := name.NewTag("vidra.example.com/vidra-operator:v1.2.3")
	require.NoError(t, err)
	r := release{
		root: root, version: "v1.2.3", image: tag,
		commit:   commit{"c0ffee", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), "v1.2.2", []string{"Say which edit was reverted"}},
		operator: []platform{local}, cli: []platform{{runtime.GOOS, runtime.GOARCH}},
	}
	if suite.Long() {
		r.operator, r.cli = []platform{{"linux", "amd64"}, {"linux", "arm64"}}, cliPlatforms
	}
	return r
}

// imageIn returns the image for this machine in an OCI layout, with the digest of its index.
func imageIn(t *testing.T, dir string) (v1.Image, v1.Hash) {
	t.Helper()
	all, err := layout.ImageIndexFromPath(dir)
	require.NoError(t, err)
	require.NoError(t, validate.Index(all))
	manifest, err := all.IndexManifest()
	require.NoError(t, err)
	require.Len(t, manifest.Manifests, 1, "the image has one digest for all platforms")
	index, err := all.ImageIndex(manifest.Manifests[0].Digest)
	require.NoError(t, err)
	platforms, err := index.IndexManifest()
	require.NoError(t, err)
	require.Equal(t, "v1.2.3", platforms.Annotations["org.opencontainers.image.version"])
	for _, one := range platforms.Manifests {
		if one.Platform.OS == local.os && one.Platform.Architecture == local.arch {
			image, err := index.Image(one.Digest)
			require.NoError(t, err)
			return image, manifest.Manifests[0].Digest
		}
	}
	require.Fail(t, "no image for this machine")
	return nil, v1.Hash{}
}

// unpack writes the files of an archive to a new folder.
func unpack(t *testing.T, r io.Reader) string {
	t.Helper()
	dir := t.TempDir()
	for archive := tar.NewReader(r); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		require.NoError(t, err)
		path := filepath.Join(dir, header.Name)
		if header.Typeflag == tar.TypeDir {
			require.NoError(t, os.MkdirAll(path, header.FileInfo().Mode()))
			continue
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		content, err := io.ReadAll(archive)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, content, header.FileInfo().Mode()))
	}
}

// requireRuns requires that the operator in an image prints its version, on this machine.
func requireRuns(t *testing.T, image v1.Image) {
	t.Helper()
	config, err := image.ConfigFile()
	require.NoError(t, err)
	require.Equal(t, nonRoot, config.Config.User)
	require.Equal(t, map[string]string{
		"org.opencontainers.image.title": "vidra-operator", "org.opencontainers.image.source": "https://github.com/vidra-operator/vidra",
		"org.opencontainers.image.version": "v1.2.3", "org.opencontainers.image.revision": "c0ffee",
		"org.opencontainers.image.created": "2026-01-02T03:04:05Z", "org.opencontainers.image.licenses": "Apache-2.0",
	}, config.Config.Labels)

	files := mutate.Extract(image)
	defer files.Close() //nolint:errcheck // it was only read
	root := unpack(t, files)
	roots, err := os.ReadFile(filepath.Join(root, certificatesFile))
	require.NoError(t, err)
	require.True(t, x509.NewCertPool().AppendCertsFromPEM(roots))
	require.Greater(t, bytes.Count(roots, []byte("BEGIN CERTIFICATE")), 100, "the roots of the public authorities")
	operator := filepath.Join(root, config.Config.Entrypoint[0])
	program, err := elf.Open(operator)
	require.NoError(t, err)
	defer program.Close() //nolint:errcheck // it was only read
	for _, segment := range program.Progs {
		require.NotEqual(t, elf.PT_INTERP, segment.Type, "nothing in the image links a program at its start")
	}
	if runtime.GOOS == local.os {
		out, err := exec.CommandContext(t.Context(), operator, "--version").CombinedOutput()
		require.NoError(t, err)
		require.Equal(t, "vidra-operator v1.2.3 "+runtime.Version()+" linux/"+runtime.GOARCH+"\n", string(out))
	}
}

// TestImage requires that the OCI layout, a Docker engine and a registry get the same image.
func TestImage(t *testing.T) {
	r, work := newRelease(t), t.TempDir()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	tag, err := name.NewTag(strings.TrimPrefix(server.URL, "http://") + "/vidra-operator:v1.2.3")
	require.NoError(t, err)
	r.image = tag
	// This docker answers like that of an engine, and keeps what it is to load.
	loaded := filepath.Join(work, "loaded.tar")
	script := "#!/bin/sh\ncase $1 in version) echo " + runtime.GOARCH + ";; load) cat >" + loaded + ";; esac\n"
	require.NoError(t, os.WriteFile(filepath.Join(work, "docker"), []byte(script), 0o755))
	t.Setenv("PATH", work+string(filepath.ListSeparator)+os.Getenv("PATH"))

	require.NoError(t, r.writeImage(t.Context(), programs))
	image, digest := imageIn(t, filepath.Join(programs, "image"))
	requireRuns(t, image)

	want, err := image.ConfigName() // the ID of the image in an engine
	require.NoError(t, err)
	inEngine, err := tarball.ImageFromPath(loaded, &tag)
	require.NoError(t, err)
	got, err := inEngine.ConfigName()
	require.NoError(t, err)
	require.Equal(t, want, got)

	require.NoError(t, r.push(t.Context(), programs))
	pushed, err := remote.Index(tag)
	require.NoError(t, err)
	got, err = pushed.Digest()
	require.NoError(t, err)
	require.Equal(t, digest, got)
	require.NoError(t, validate.Index(pushed))
}

// TestCertificatesWithConstraints requires that the image trusts no root for more than Mozilla
// does.
func TestCertificatesWithConstraints(t *testing.T) {
	constrained := 0
	for root := range bundle.Roots() {
		found := bytes.Contains(certificates(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		require.Equal(t, root.Constraint == nil, found)
		if !found {
			constrained++
		}
	}
	require.Positive(t, constrained)
}
