package generate

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

const (
	// rewrite is the environment variable that makes Section write the file.
	rewrite = "VIDRA_GENERATE"
	// sectionEnd is the line after each generated part of a file.
	sectionEnd = "<!-- End of the generated part. -->\n"
)

// Section requires that the part of a file of the docs that the test t generates from
// source is want. It writes that part instead if VIDRA_GENERATE is set.
func Section(t *testing.T, file, source, want string) {
	t.Helper()
	root, err := testenv.Root()
	require.NoError(t, err)
	dir, err := os.Getwd()
	require.NoError(t, err)
	pkg, err := filepath.Rel(root, dir)
	require.NoError(t, err)
	command := fmt.Sprintf("%s=1 go test ./%s -run %s", rewrite, filepath.ToSlash(pkg), t.Name())
	begin := fmt.Sprintf("<!-- Generated from %s: %s -->\n", source, command)

	path := filepath.Join(root, file)
	text, err := os.ReadFile(path) //nolint:gosec // a file of this repository
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), begin)
	require.True(t, found, "%s has no line %q", file, begin)
	_, after, found := strings.Cut(rest, sectionEnd)
	require.True(t, found, "%s has no line %q after that", file, sectionEnd)
	want = before + begin + "\n" + strings.Trim(want, "\n") + "\n\n" + sectionEnd + after
	if os.Getenv(rewrite) != "" {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o600))
		return
	}
	require.Equal(t, want, string(text), "%s is out of date: run `%s`", file, command)
}

// Cell makes a text fit into a cell of a Markdown table.
func Cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}
