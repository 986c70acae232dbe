package generate

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

// TestDocsNameTestsThatExist checks every test that README.md and docs/ name. A promise
// whose test was renamed or deleted would otherwise go on looking as if it were kept.
func TestDocsNameTestsThatExist(t *testing.T) {
	root, err := testenv.Root()
	require.NoError(t, err)
	tests := testNames(t, root)
	check := func(path string) {
		text, err := os.ReadFile(path) //nolint:gosec // a file of this repository
		require.NoError(t, err)
		testsIn(t, string(text), tests)
	}
	check(filepath.Join(root, "README.md"))
	require.NoError(t, filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			check(path)
		}
		return err
	}))
}

// TestEachSwitchNamesItsTest checks that each row of the tables of docs/switches.md names
// a test.
func TestEachSwitchNamesItsTest(t *testing.T) {
	root, err := testenv.Root()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, "docs", "switches.md"))
	require.NoError(t, err)
	rows := 0
	for line := range strings.SplitSeq(string(text), "\n") {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || strings.HasSuffix(line, "shown by |") {
			continue
		}
		rows++
		require.NotEmpty(t, testsIn(t, line, testNames(t, root)), "no test shows it: %s", line)
	}
	require.NotZero(t, rows)
}
