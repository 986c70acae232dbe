package dev

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWatcher changes files in the ways of editors and of the kubelet.
func TestWatcher(t *testing.T) {
	write := func(t *testing.T, path, text string) {
		t.Helper()
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	for name, tt := range map[string]struct {
		reason string
		watch  string
		before func(t *testing.T, folder string)
		save   func(t *testing.T, folder string)
	}{
		"write": {"an editor writes the file", "a.yaml", nil, func(t *testing.T, folder string) { write(t, folder+"/a.yaml", "b") }},
		"rename": {"many editors replace it", "a.yaml", nil, func(t *testing.T, folder string) {
			write(t, filepath.Dir(folder)+"/b", "b")
			require.NoError(t, os.Rename(filepath.Dir(folder)+"/b", folder+"/a.yaml"))
		}},
		"folder":   {"a new file", ".", nil, func(t *testing.T, folder string) { write(t, folder+"/b.yaml", "b") }},
		"replaced": {"the folder is another one", ".", nil, func(t *testing.T, folder string) { require.NoError(t, os.Rename(folder, folder+"-old")) }},
		"created":  {"it comes back", "inner", func(t *testing.T, folder string) { require.NoError(t, os.RemoveAll(folder)) }, func(t *testing.T, folder string) { require.NoError(t, os.Mkdir(folder, 0o700)) }},
		"mounted": {"a mounted ConfigMap has links to a folder, which is replaced", "b.yaml", func(t *testing.T, folder string) {
			write(t, folder+"/..1/b.yaml", "a")
			write(t, folder+"/..2/b.yaml", "b")
			require.NoError(t, os.Symlink("..1", folder+"/..data"))
			require.NoError(t, os.Symlink("..data/b.yaml", folder+"/b.yaml"))
		}, func(t *testing.T, folder string) {
			require.NoError(t, os.Symlink("..2", folder+"/..tmp"))
			require.NoError(t, os.Rename(folder+"/..tmp", folder+"/..data"))
		}},
		"link": {"the folder is behind a link elsewhere", "b.yaml", func(t *testing.T, folder string) {
			write(t, filepath.Dir(folder)+"/v1/c.yaml", "a")
			require.NoError(t, os.Symlink("v1", filepath.Dir(folder)+"/current"))
			require.NoError(t, os.Symlink("../current/c.yaml", folder+"/b.yaml"))
		}, func(t *testing.T, folder string) {
			require.NoError(t, os.Symlink("v2", filepath.Dir(folder)+"/next"))
			require.NoError(t, os.Rename(filepath.Dir(folder)+"/next", filepath.Dir(folder)+"/current"))
		}},
		"loop": {"links in a circle end", ".", func(t *testing.T, folder string) { require.NoError(t, os.Symlink("l", folder+"/l")) }, func(t *testing.T, folder string) { write(t, folder+"/b.yaml", "b") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := filepath.Join(t.TempDir(), "manifests")
			write(t, folder+"/a.yaml", "a")
			if tt.before != nil {
				tt.before(t, folder)
			}
			w, err := newWatcher(func(text string) { t.Error(text) })
			require.NoError(t, err)
			defer w.close()
			saves := w.saves(t.Context())
			w.begin()
			w.visit(filepath.Join(folder, tt.watch))
			w.visit(filepath.Join(folder, "l"))
			w.end()
			begin := time.Now()
			tt.save(t, folder)
			select {
			case at := <-saves:
				t.Logf("seen after %s, known after %s", at.Sub(begin), time.Since(begin))
			case <-time.After(time.Minute):
				require.Fail(t, "not seen", tt.reason)
			}
		})
	}
}
