package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
)

// maxCLI is how large an archive of the command line may be, in bytes.
const maxCLI = 25 << 20

// written writes a release to a new folder and returns its files by name. The programs are built
// in the folder work.
func written(t *testing.T, r release, work string) map[string][]byte {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "dist")
	require.NoError(t, r.write(t.Context(), work, dir))
	files, err := readFolder(dir)
	require.NoError(t, err)
	byName := map[string][]byte{}
	for _, f := range files {
		byName[f.name] = f.content
	}
	return byName
}

// TestRelease requires that two releases of one commit are the same, and that users can install
// what is in them. The second one is of the same programs, so that all but what `go build` links is
// compared. At full size its programs are built again, from a copy of the source elsewhere and
// without the cache of Go.
func TestRelease(t *testing.T) {
	r := newRelease(t)
	files := written(t, r, programs)
	t.Run("reproducible", func(t *testing.T) {
		again, work := r, programs
		if suite.Long() {
			work = t.TempDir()
			again.root = t.TempDir()
			for _, part := range []string{"cmd", "pkg", "config"} {
				require.NoError(t, os.CopyFS(filepath.Join(again.root, part), os.DirFS(filepath.Join(r.root, part))))
			}
			for _, name := range []string{"go.mod", "go.sum", "LICENSE"} {
				text, err := os.ReadFile(filepath.Join(r.root, name))
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(filepath.Join(again.root, name), text, 0o600))
			}
			t.Setenv("GOCACHE", t.TempDir())
		}
		for name, content := range written(t, again, work) {
			require.True(t, bytes.Equal(files[name], content), name)
		}
	})
	t.Run("checksums", func(t *testing.T) {
		var want strings.Builder
		for line := range strings.Lines(string(files["SHA256SUMS"])) {
			_, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
			fmt.Fprintf(&want, "%x  %s\n", sha256.Sum256(files[name]), name)
		}
		require.Equal(t, want.String(), string(files["SHA256SUMS"]))
		require.Len(t, files, strings.Count(want.String(), "\n")+1, "all files but itself")
	})
	t.Run("image", func(t *testing.T) {
		image, digest := imageIn(t, unpack(t, bytes.NewReader(files["vidra-operator_image.tar"])))
		requireRuns(t, image)
		for _, name := range []string{"install.yaml", "install-restricted.yaml"} {
			require.Contains(t, string(files[name]), "image: vidra.example.com/vidra-operator:v1.2.3@"+digest.String()+"\n", name)
		}
		requireChart(t, files, "vidra.example.com/vidra-operator:v1.2.3@"+digest.String())
	})
	t.Run("manifests", func(t *testing.T) { requireInstalls(t, files) })
	t.Run("command line", func(t *testing.T) { requireCLI(t, r, files) })
	t.Run("SBOM", func(t *testing.T) {
		operator := modulesIn(t, files[local.file("vidra-operator")+".cdx.json"])
		require.Contains(t, operator, "sigs.k8s.io/controller-runtime")
		require.Contains(t, operator, "golang.org/x/crypto/x509roots/fallback", "the certificates of the image")
		require.Equal(t, strings.TrimPrefix(runtime.Version(), "go"), operator["stdlib"])
		cli := modulesIn(t, files[r.cli[0].file("vidra")+".cdx.json"])
		require.Contains(t, cli, "github.com/spf13/cobra")
		require.NotContains(t, cli, "github.com/google/go-containerregistry", "the tools of a release are in no program")
	})
	require.Equal(t, "## v1.2.3 (2026-01-02)\n\nChanges since v1.2.2:\n\n- Say which edit was reverted\n", string(files["changelog.md"]))
}

// modulesIn returns the versions of the components of an SBOM, by name.
func modulesIn(t *testing.T, text []byte) map[string]string {
	t.Helper()
	bom := &cdx.BOM{}
	require.NoError(t, cdx.NewBOMDecoder(bytes.NewReader(text), cdx.BOMFileFormatJSON).Decode(bom))
	versions := map[string]string{}
	for _, c := range *bom.Components {
		require.Equal(t, "pkg:golang/"+c.Name+"@"+strings.ReplaceAll(c.Version, "+", "%2B"), c.PackageURL)
		versions[c.Name] = c.Version
	}
	return versions
}

// requireInstalls requires that the API server accepts the manifests, and install-restricted.yaml
// also over install.yaml.
func requireInstalls(t *testing.T, files map[string][]byte) {
	t.Helper()
	log.SetLogger(logr.Discard())
	env, err := testenv.Start(t.Context(), testenv.Options{Out: os.Stderr})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, env.Stop()) })
	cluster, err := testenv.Client(env.Config)
	require.NoError(t, err)
	for _, name := range []string{"install.yaml", "install-restricted.yaml"} {
		var objs []*unstructured.Unstructured
		for document := range strings.SplitSeq(strings.TrimPrefix(string(files[name]), "---\n"), "\n---\n") {
			obj := &unstructured.Unstructured{}
			require.NoError(t, utilyaml.Unmarshal([]byte(document), &obj.Object))
			objs = append(objs, obj)
		}
		require.Equal(t, "Namespace", objs[0].GetKind(), "kubectl creates the objects in the order of the file")
		require.NoError(t, testenv.Apply(t.Context(), env.Config, objs), name)
	}
	deployment := &appsv1.Deployment{}
	require.NoError(t, cluster.Get(t.Context(), client.ObjectKey{Namespace: testenv.OperatorNamespace, Name: "vidra-operator"}, deployment))
	require.Contains(t, deployment.Spec.Template.Spec.Containers[0].Args, "--require-service-account")
}

// requireChart requires that helm renders the objects of install.yaml from the chart, with its version.
func requireChart(t *testing.T, files map[string][]byte, image string) {
	t.Helper()
	helm, err := testenv.Helm(t.Context(), testenv.Options{Out: os.Stderr})
	require.NoError(t, err)
	chart := filepath.Join(t.TempDir(), "vidra-1.2.3.tgz")
	require.NoError(t, os.WriteFile(chart, files[filepath.Base(chart)], 0o600))
	run := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), helm, args...).Output()
		require.NoError(t, err, "helm %q", args)
		return string(out)
	}
	shown := run("show", "chart", chart)
	require.Contains(t, shown, "\nversion: 1.2.3\n")
	require.Contains(t, shown, "\nappVersion: v1.2.3\n")
	rendered := run("template", "vidra", chart, "--namespace="+testenv.OperatorNamespace)
	require.Contains(t, rendered, "image: "+image+"\n")
	kinds := regexp.MustCompile(`(?m)^kind: (\w+)$`)
	require.ElementsMatch(t, kinds.FindAllString(string(files["install.yaml"]), -1),
		append(kinds.FindAllString(rendered, -1), "kind: Namespace"), "TestChartIsKustomize compares the objects")
}

// requireCLI requires that the archives of the command line are those of the manifest for krew,
// are small, and hold a program that runs.
func requireCLI(t *testing.T, r release, files map[string][]byte) {
	t.Helper()
	plugin := struct {
		Metadata struct{ Name string }
		Spec     struct {
			Version, ShortDescription string
			Platforms                 []struct {
				URI, SHA256, Bin string
				Selector         struct{ MatchLabels map[string]string }
			}
		}
	}{}
	require.NoError(t, yaml.Unmarshal(files["krew.yaml"], &plugin))
	require.Equal(t, "vidra", plugin.Metadata.Name)
	require.Equal(t, "v1.2.3", plugin.Spec.Version)
	require.Len(t, plugin.Spec.Platforms, len(r.cli))
	for i, on := range r.cli {
		p, name := plugin.Spec.Platforms[i], on.file("vidra")+".tar.gz"
		require.Equal(t, "https://github.com/vidra-operator/vidra/releases/download/v1.2.3/"+name, p.URI)
		require.Equal(t, map[string]string{"os": on.os, "arch": on.arch}, p.Selector.MatchLabels)
		require.Equal(t, fmt.Sprintf("%x", sha256.Sum256(files[name])), p.SHA256)
		require.Less(t, len(files[name]), maxCLI, name)
		t.Logf("%s: %.1f MB", name, float64(len(files[name]))/1e6)

		zipped, err := gzip.NewReader(bytes.NewReader(files[name]))
		require.NoError(t, err)
		dir := unpack(t, zipped)
		require.FileExists(t, filepath.Join(dir, "LICENSE"))
		require.FileExists(t, filepath.Join(dir, p.Bin))
		if on == (platform{runtime.GOOS, runtime.GOARCH}) {
			out, err := exec.CommandContext(t.Context(), filepath.Join(dir, p.Bin), "version").CombinedOutput()
			require.NoError(t, err)
			require.Equal(t, "vidra v1.2.3 "+runtime.Version()+" "+on.os+"/"+on.arch+"\n", string(out))
		}
	}
}

// TestVersionsThatAreNotReleased requires that dist refuses what no other machine can build.
func TestVersionsThatAreNotReleased(t *testing.T) {
	tests := map[string]struct{ reason, version string }{
		"no tag":  {"krew wants a semantic version", "93fbdee"},
		"no v":    {"krew wants the v of a tag", "1.2.3"},
		"changed": {"the changes are in no commit", "v1.2.3-dirty"},
		"none":    {"the checkout is without git", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRelease(t)
			r.root, r.version = t.TempDir(), tt.version
			require.ErrorContains(t, r.dist(t.Context()), "is no version to release", tt.reason)
		})
	}
}

// TestReadCommit requires that the changelog begins after the last tag that is not of the commit.
func TestReadCommit(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=Vidra", "-c", "user.email=vidra@example.com"}, args...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z", "GIT_CONFIG_GLOBAL=/dev/null")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	git("init", "-q")
	git("commit", "-q", "--allow-empty", "-m", "Begin")
	first, err := readCommit(t.Context(), dir)
	require.NoError(t, err)
	require.Empty(t, first.since)
	require.Equal(t, []string{"Begin"}, first.subjects)
	require.Equal(t, "2026-01-02T03:04:05Z", first.time.Format("2006-01-02T15:04:05Z07:00"))

	git("tag", "v0.9.0")
	git("commit", "-q", "--allow-empty", "-m", "Work")
	git("tag", "v0.10.0")
	git("commit", "-q", "--allow-empty", "-m", "Revert", "-m", "The body is not in the changelog.")
	git("commit", "-q", "--allow-empty", "-m", "Prune")
	git("tag", "v0.11.0")
	third, err := readCommit(t.Context(), dir)
	require.NoError(t, err)
	require.Equal(t, "v0.10.0", third.since)
	require.Equal(t, []string{"Prune", "Revert"}, third.subjects)
	require.NotEqual(t, first.revision, third.revision)
}
