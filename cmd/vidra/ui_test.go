package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOpenBrowser: other users of the machine see the arguments of the program that opens the browser: they lead to the address, and lack it.
func TestOpenBrowser(t *testing.T) {
	const address = "http://127.0.0.1:8090/TOKEN/"
	for name, test := range map[string]struct {
		reason string
		home   string
	}{
		"home":    {reason: "browsers in a snap read the home folder", home: t.TempDir()},
		"no home": {reason: "such as an account of a service", home: "/nonexistent"},
	} {
		t.Run(name, func(t *testing.T) {
			programs, temporary := t.TempDir(), t.TempDir()
			given := filepath.Join(programs, "given")
			script := "#!/bin/sh\nprintf '%s\\n' \"$@\" >" + given + ".part\n/bin/mv " + given + ".part " + given + "\n"
			for _, opener := range []string{"xdg-open", "open"} {
				require.NoError(t, os.WriteFile(filepath.Join(programs, opener), []byte(script), 0o700)) //nolint:gosec // a program
			}
			t.Setenv("PATH", programs)
			t.Setenv("HOME", test.home)
			t.Setenv("TMPDIR", temporary)
			closeFile, err := openBrowser(t.Context(), address)
			require.NoError(t, err, test.reason)
			defer closeFile()
			require.Eventually(t, func() bool {
				_, err := os.Stat(given)
				return err == nil
			}, 10*time.Second, time.Millisecond)
			text, err := os.ReadFile(given) //nolint:gosec // a file of this test
			require.NoError(t, err)
			require.NotContains(t, string(text), "TOKEN")
			file := strings.TrimSpace(string(text))
			within := test.home
			if name == "no home" {
				within = temporary
			}
			require.Equal(t, within, filepath.Dir(filepath.Dir(file)), test.reason)
			for path, mode := range map[string]os.FileMode{file: 0o600, filepath.Dir(file): 0o700} {
				info, err := os.Stat(path)
				require.NoError(t, err)
				require.Equal(t, mode, info.Mode().Perm(), "for the user alone: %s", path)
			}
			page, err := os.ReadFile(file) //nolint:gosec // a file of this test
			require.NoError(t, err)
			require.Contains(t, string(page), `<meta http-equiv="refresh" content="0; url=`+address+`">`)
			closeFile()
			left, err := os.ReadDir(within)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
	t.Run("no program", func(t *testing.T) {
		home := t.TempDir()
		t.Setenv("PATH", t.TempDir())
		t.Setenv("HOME", home)
		closeFile, err := openBrowser(t.Context(), address)
		require.Error(t, err)
		closeFile()
		left, err := os.ReadDir(home)
		require.NoError(t, err)
		require.Empty(t, left)
	})
}
