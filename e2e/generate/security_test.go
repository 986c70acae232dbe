package generate

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

// tables are the tables of docs/security.md that name tests in their last column: of what,
// and the rows.
var tables = regexp.MustCompile(`(?m)^\| (.*) \| Shown by \|\n\|[-|]*\n((?:\|.*\n)+)`)

// TestSecurityNamesItsTests checks that each threat, and each claim of who can do what, in
// docs/security.md names a test in its last column, and that the test exists.
func TestSecurityNamesItsTests(t *testing.T) {
	root, err := testenv.Root()
	require.NoError(t, err)
	doc, err := os.ReadFile(filepath.Join(root, "docs", "security.md"))
	require.NoError(t, err)
	tests := testNames(t, root)
	testsIn(t, string(doc), tests)
	found := tables.FindAllStringSubmatch(string(doc), -1)
	require.Len(t, found, strings.Count(string(doc), "| Shown by |"))
	require.GreaterOrEqual(t, len(found), 5, "threats of four kinds, and who can do what")
	for _, table := range found {
		columns := strings.Count(table[1], " | ") + 2
		for row := range strings.Lines(table[2]) {
			cells := strings.Split(strings.Trim(row, "|\n"), " | ")
			require.Len(t, cells, columns, row)
			require.NotEmpty(t, testsIn(t, cells[columns-1], tests), "no test shows it: %s", row)
		}
	}
}
