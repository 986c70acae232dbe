package generate

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

// TestFailuresNameTheirTests keeps docs/failures.md and the tests together: each
// test that it names exists, and it names each one whose name has the number of a
// failure.
func TestFailuresNameTheirTests(t *testing.T) {
	root, err := testenv.Root()
	require.NoError(t, err)
	doc, err := os.ReadFile(filepath.Join(root, "docs", "failures.md"))
	require.NoError(t, err)
	tests := testNames(t, root)
	named := testsIn(t, string(doc), tests)
	numbered := regexp.MustCompile(`^TestF\d\d`)
	for test := range tests {
		if numbered.MatchString(test) {
			require.True(t, named[test], "%s belongs in docs/failures.md", test)
		}
	}
}

// testsIn returns the names of the tests that text quotes, each of which must be one of
// tests.
func testsIn(t *testing.T, text string, tests map[string]bool) map[string]bool {
	t.Helper()
	named := map[string]bool{}
	for _, match := range regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(text, -1) {
		require.True(t, tests[match[1]], "there is no test %s", match[1])
		named[match[1]] = true
	}
	return named
}

// testNames are the names of all tests below root.
func testNames(t *testing.T, root string) map[string]bool {
	t.Helper()
	declaration := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	names := map[string]bool{}
	require.NoError(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path) //nolint:gosec // a file of this repository
		for _, match := range declaration.FindAllSubmatch(source, -1) {
			names[string(match[1])] = true
		}
		return err
	}))
	return names
}
