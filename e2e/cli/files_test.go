package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/e2e/suite"
)

// TestSeveralFiles gives several files, and a folder, to one command: each of them is read.
func TestSeveralFiles(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "several")
	good, bad := writeFile(t, settings), writeFile(t, "apiVersion: v1\nkind: Secret\n")
	require.Equal(t, 0, vidra(t, "lint", "-f", good).code)
	for _, files := range [][]string{{"-f", good, "-f", bad}, {"-f", bad, "-f", good}} {
		lint := vidra(t, append([]string{"lint"}, files...)...)
		require.NotEqual(t, 0, lint.code, files)
		require.Contains(t, lint.stdout+lint.stderr, "Secret")
	}
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "one.yaml"), []byte(suite.Greeting("one", "hello")), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "two.yaml"), []byte(suite.Greeting("two", "hello")), 0o600))
	diff := vidra(t, "diff", "-n", "several", "-f", folder, "-f", good)
	require.Equal(t, 1, diff.code, diff.stderr)
	for _, name := range []string{"several/one", "several/two", "several/settings"} {
		require.Contains(t, diff.stdout, name)
	}
}

// TestDroppedFields: diff shows a field that the file does not have any more, and an object that it has not.
func TestDroppedFields(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "drops")
	document := suite.Greeting("page", "hello") + "  farewell: goodbye\n"
	cluster.NewVidraResource(t, "drops", suite.Manifests(document, suite.Greeting("other", "hello")))
	cluster.AwaitReady(t, "drops")
	diff := vidra(t, "diff", "drops", "-f", writeFile(t, suite.Greeting("page", "hello")))
	require.Equal(t, 1, diff.code, diff.stderr)
	require.Contains(t, diff.stdout, "farewell")
	require.Contains(t, diff.stdout, "drops/other")
}
