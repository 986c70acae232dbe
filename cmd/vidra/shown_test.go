package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// goldenCall finds the files of testdata that the tests of e2e/cli compare with what a command prints.
var goldenCall = regexp.MustCompile(`\bgolden\(\w+, "([^"]+)"`)

// TestCommandsAreShown requires of each command that e2e/cli compares its output with a file that is named after it, and that
// docs/cli.md has it.
func TestCommandsAreShown(t *testing.T) {
	const tests = "../../e2e/cli"
	compared, files := map[string]bool{}, map[string]bool{}
	sources, err := filepath.Glob(filepath.Join(tests, "*_test.go"))
	require.NoError(t, err)
	for _, source := range sources {
		text, err := os.ReadFile(source) //nolint:gosec // a file of this repository
		require.NoError(t, err)
		for _, call := range goldenCall.FindAllStringSubmatch(string(text), -1) {
			compared[call[1]] = true
		}
	}
	outputs, err := filepath.Glob(filepath.Join(tests, "testdata", "*.txt"))
	require.NoError(t, err)
	for _, output := range outputs {
		files[strings.TrimSuffix(filepath.Base(output), ".txt")] = true
	}
	require.Equal(t, compared, files, "each file of testdata has a test, and each test has its file")
	shown := map[string]bool{}
	for file := range files {
		command, _, _ := strings.Cut(file, "-")
		shown[command] = true
	}
	docs, err := os.ReadFile("../../docs/cli.md")
	require.NoError(t, err)
	for _, cmd := range newRoot().Commands() {
		documented := regexp.MustCompile(`\bvidra ` + cmd.Name() + `\b`).Match(docs)
		require.True(t, documented, "docs/cli.md does not have `vidra %s`", cmd.Name())
		if cmd.Name() != "completion" && cmd.Name() != "ui" { // cobra prints its scripts; e2e/ui tests the page
			require.True(t, shown[cmd.Name()], "%s: a test of e2e/cli compares its output by golden(t, %q, ...)", cmd.Name(), cmd.Name())
		}
	}
}
