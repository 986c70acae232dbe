package testenv

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestVersionsAgreeWithModule(t *testing.T) {
	root, err := Root()
	require.NoError(t, err)
	b, err := os.ReadFile(filepath.Join(root, "e2e", "controlplane", "go.mod"))
	require.NoError(t, err)
	goMod := strings.Split(string(b), "\n")
	require.Contains(t, goMod, "\tk8s.io/kubernetes "+KubernetesVersion)
	require.Contains(t, goMod, "\tgo.etcd.io/etcd/server/v3 "+EtcdVersion)
	for _, version := range otherVersions {
		other, err := os.ReadFile(filepath.Join(root, "e2e", "controlplane", modFileName(version)))
		require.NoError(t, err)
		require.Regexp(t, `(?m)^(require |\t)k8s.io/kubernetes `+version+`$`, string(other))
	}

	docs, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	require.NoError(t, err)
	for _, version := range append([]string{KubernetesVersion}, otherVersions...) {
		require.Contains(t, string(docs), "\n| "+minorOf(version)+" | ", "the table of supported versions")
	}
	chart, err := os.ReadFile(filepath.Join(root, "config", "chart", "Chart.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(chart), `kubeVersion: ">=`+minorOf(otherVersions[len(otherVersions)-1])+`.0-0"`, "the oldest one")
}

// TestVersion: K8S_VERSION chooses among the versions that have a module file.
func TestVersion(t *testing.T) {
	cases := map[string]struct{ reason, chosen, want, folder string }{
		"Unset":   {"the pinned one", "", KubernetesVersion, "kubernetes-v1.36.3-"},
		"Pinned":  {"by its minor", "1.36", KubernetesVersion, "kubernetes-v1.36.3-"},
		"Newest":  {"by its minor", "1.37", "v1.37.2", "kubernetes-v1.37.2-"},
		"Oldest":  {"by its minor", "1.33", "v1.33.13", "kubernetes-v1.33.13-"},
		"Patch":   {"whole, as git tags it", "v1.33.13", "v1.33.13", "kubernetes-v1.33.13-"},
		"Unknown": {"it has no module file", "1.32", "", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Setenv(versionEnv, tc.chosen)
			version, err := Version()
			require.Equal(t, tc.want, version, tc.reason)
			if tc.want == "" {
				require.ErrorContains(t, err, `K8S_VERSION is "1.32": the control plane can be built at v1.36.3, v1.37.2, v1.35.4, v1.34.4, v1.33.13`)
				return
			}
			require.Contains(t, versionKey(version), tc.folder)
			require.Equal(t, version == KubernetesVersion, len(components(version)[1].modFile()) == 0, tc.reason)
			require.Equal(t, version >= KubernetesVersion, AtLeast(36), tc.reason)
		})
	}
}

func TestLinkerFlags(t *testing.T) {
	require.Equal(t, "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3"+
		" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36", linkerFlags(KubernetesVersion))
}

// fill puts executables with these names into a new folder.
func fill(t *testing.T, mode os.FileMode, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), mode))
	}
	return dir
}

func TestAssets(t *testing.T) {
	cached := filepath.Join(t.TempDir(), "vidra", "controlplane", versionKey(KubernetesVersion))
	require.NoError(t, os.MkdirAll(filepath.Dir(cached), 0o755))
	require.NoError(t, os.Rename(fill(t, 0o755, etcdName, apiServerName, controllerManagerName), cached))
	cache := filepath.Dir(filepath.Dir(filepath.Dir(cached)))
	complete := fill(t, 0o755, etcdName, apiServerName, controllerManagerName)
	notExecutable := fill(t, 0o644, etcdName, apiServerName, controllerManagerName)

	tests := map[string]struct {
		reason   string
		assets   string
		cache    string
		outside  bool
		want     string
		wantSaid string
		wantErr  []string
	}{
		"set and complete": {
			reason: "what the person set wins",
			assets: complete,
			cache:  cache,
			want:   complete,
		},
		"set and incomplete": {
			reason:   "envtest's own downloads lack kube-controller-manager: say so and go on",
			assets:   fill(t, 0o755, etcdName, apiServerName, "kubectl"),
			cache:    cache,
			want:     cached,
			wantSaid: "lacks kube-controller-manager: using what is built from source",
		},
		"set and not executable": {
			reason:   "files that cannot run do not count",
			assets:   notExecutable,
			cache:    cache,
			want:     cached,
			wantSaid: "lacks etcd, kube-apiserver, kube-controller-manager:",
		},
		"cache filled, no checkout": {
			reason:  "with nothing to build no source is needed",
			cache:   cache,
			outside: true,
			want:    cached,
		},
		"cache empty, no checkout": {
			reason:  "what is missing can only be built from source",
			cache:   t.TempDir(),
			outside: true,
			wantErr: []string{"building needs the source", "not inside a checkout of " + module},
		},
		"cache cannot be written": {
			reason:  "the error says what to do",
			cache:   os.DevNull,
			wantErr: []string{"cannot keep the control plane in", "set XDG_CACHE_HOME", assetsEnv},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv(assetsEnv, tt.assets)
			t.Setenv(versionEnv, "")
			t.Setenv("XDG_CACHE_HOME", tt.cache)
			if tt.outside {
				t.Chdir(t.TempDir())
			}
			var said bytes.Buffer
			got, err := Assets(t.Context(), Options{Out: &said})
			for _, want := range tt.wantErr {
				require.ErrorContains(t, err, want, tt.reason)
			}
			if len(tt.wantErr) > 0 {
				return
			}
			require.NoError(t, err, tt.reason)
			require.Equal(t, tt.want, got, tt.reason)
			require.Contains(t, said.String(), tt.wantSaid, tt.reason)
		})
	}
}

// writeModule makes a module with one main package.
func writeModule(t *testing.T, source string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/m\n\ngo 1.26\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n"+source), 0o644))
	return dir
}

func TestGoBuild(t *testing.T) {
	tests := map[string]struct {
		reason  string
		source  string
		timeout time.Duration
		wantErr []string
	}{
		"good": {
			reason: "the executable is there, and nothing else",
			source: "func main() {}\n",
		},
		"broken": {
			reason:  "what the compiler says is in the error",
			source:  "func main() { undefinedThing() }\n",
			wantErr: []string{"building a test", "undefined: undefinedThing"},
		},
		"interrupted": {
			reason:  "a build that is given up leaves nothing",
			source:  "func main() {}\n",
			timeout: time.Nanosecond,
			wantErr: []string{"building a test", context.DeadlineExceeded.Error()},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			if tt.timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, tt.timeout)
				defer cancel()
			}
			var out bytes.Buffer
			dir, target := writeModule(t, tt.source), t.TempDir()
			err := goBuild(ctx, buildOptions{
				what: "a test", dir: dir, pkg: ".", target: filepath.Join(target, "m"), out: &out,
				env: []string{"CGO_ENABLED=0", "GOFLAGS=-mod=readonly"},
			})
			entries, readErr := os.ReadDir(target)
			require.NoError(t, readErr)
			require.Contains(t, out.String(), "building a test")
			if len(tt.wantErr) == 0 {
				require.NoError(t, err, tt.reason)
				require.Len(t, entries, 1, tt.reason)
				require.Equal(t, "m", entries[0].Name())
				return
			}
			require.Empty(t, entries, tt.reason)
			for _, want := range tt.wantErr {
				require.ErrorContains(t, err, want, tt.reason)
			}
		})
	}
}

// TestGoBuildAgain requires that an executable is linked again only where its source has changed.
func TestGoBuildAgain(t *testing.T) {
	dir, target := writeModule(t, "func main() {}\n"), filepath.Join(t.TempDir(), "m")
	build := func() os.FileInfo {
		require.NoError(t, goBuild(t.Context(), buildOptions{
			what: "a test", dir: dir, pkg: ".", target: target, out: io.Discard, env: []string{"CGO_ENABLED=0", "GOFLAGS=-mod=readonly"},
		}))
		info, err := os.Stat(target)
		require.NoError(t, err)
		return info
	}
	first := build()
	require.True(t, os.SameFile(first, build()), "nothing has changed")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "more.go"), []byte("package main\n\nfunc init() { println() }\n"), 0o600))
	require.False(t, os.SameFile(first, build()), "the source has changed")
}

func TestProgressCounts(t *testing.T) {
	p := &progress{what: "x", start: time.Now()}
	for _, part := range []string{
		"go: downloading k8s.io/api v0.1.0\ninter", "nal/abi\nk8s.io/api/core/v1\n",
		"# k8s.io/x\nx.go:1:2: undefined: y\n",
	} {
		_, err := p.Write([]byte(part))
		require.NoError(t, err)
	}
	require.Equal(t, "building x: 0s, 2 packages compiled, 1 modules downloaded", p.String())
	require.Equal(t, "# k8s.io/x\nx.go:1:2: undefined: y", p.tail())
}

func TestLockFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var out bytes.Buffer
	unlock, err := lockFile(t.Context(), path, &out)
	require.NoError(t, err)
	require.Empty(t, out.String())

	ctx, cancel := context.WithTimeout(t.Context(), 3*lockPoll)
	defer cancel()
	_, err = lockFile(ctx, path, &out)
	require.ErrorIs(t, err, context.DeadlineExceeded, "the lock is taken")
	require.Equal(t, 1, strings.Count(out.String(), "waiting for it"), "said once")

	unlock()
	again, err := lockFile(t.Context(), path, &out)
	require.NoError(t, err, "the lock is free")
	again()
}

func TestRoot(t *testing.T) {
	root, err := Root()
	require.NoError(t, err)
	t.Chdir(filepath.Join(root, "e2e", "controlplane"))
	got, err := Root()
	require.NoError(t, err)
	require.Equal(t, root, got, "the go.mod of a nested module is not ours")
}
