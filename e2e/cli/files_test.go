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

// TestStandardInput gives the standard input to the commands that take files, alone and beside files.
func TestStandardInput(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "stdin")
	file, folder := writeFile(t, settings), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(folder, "inner"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "inner", "one.yaml"), []byte(suite.Greeting("one", "hello")), 0o600))
	page := suite.Greeting("page", "hello")
	vr := "apiVersion: infrahub.operators.com/v1alpha1\nkind: VidraResource\nmetadata: {name: stdin}\nspec:\n  destination: {namespace: stdin}\n  manifest: |\n    apiVersion: v1\n    kind: ConfigMap\n    metadata: {name: inside}\n"
	tests := map[string]struct {
		reason, input string
		args          []string
		code          int
		want          []string
	}{
		"lint":              {"it is a file like others", page, []string{"lint", "-f", "-"}, 0, []string{"-: 1 object"}},
		"lint, a problem":   {"with its position", "apiVersion: v1\nkind: Secret\n", []string{"lint", "-f", "-"}, 1, []string{"-: document 1, line 1: Secret"}},
		"lint beside files": {"an object is in both", settings, []string{"lint", "-f", file, "-f", "-"}, 1, []string{"settings"}},
		"diff":              {"a new VidraResource", page, []string{"diff", "-n", "stdin", "-f", "-"}, 1, []string{"stdin/page"}},
		"diff beside files": {"both are one manifest", page, []string{"diff", "-n", "stdin", "-f", file, "-f", "-"}, 1, []string{"stdin/page", "stdin/settings"}},
		"VidraResource":     {"what is given is one", vr, []string{"diff", "-f", "-"}, 1, []string{"VidraResource stdin", "stdin/inside"}},
		"forecast":          {"so it is for a forecast", vr, []string{"forecast", "-f", "-"}, 0, []string{"VidraResource stdin: 0 fields will fight"}},
		"twice":             {"it can be read once", page, []string{"diff", "-f", "-", "-f", "-"}, 2, []string{"- is given twice with -f"}},
		"empty":             {"nothing is no manifest", "", []string{"diff", "-n", "stdin", "-f", "-"}, 2, []string{"-: no object found"}},
		"folder in folder":  {"folders in folders are read on demand", "", []string{"lint", "-f", folder}, 1, []string{"-R also reads its 1 folder"}},
		"folders":           {"with -R", page, []string{"diff", "-n", "stdin", "-R", "-f", folder, "-f", "-"}, 1, []string{"stdin/one", "stdin/page"}},
		"no such file":      {"the path is named", page, []string{"diff", "-f", "-", "-f", "nowhere.yaml"}, 2, []string{"nowhere.yaml", "no such file"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := vidraReading(t, tt.input, tt.args...)
			require.Equal(t, tt.code, got.code, "%s: %s%s", tt.reason, got.stdout, got.stderr)
			for _, text := range tt.want {
				require.Contains(t, got.stdout+got.stderr, text, tt.reason)
			}
		})
	}
}
