package generate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

// threats is the header of the tables of docs/security.md that name tests.
const threats = "| Threat | What bounds it | Shown by |"

// TestSecurityNamesItsTests checks that each threat in docs/security.md names a test in
// its last column, and that the test exists.
func TestSecurityNamesItsTests(t *testing.T) {
	root, err := testenv.Root()
	require.NoError(t, err)
	doc, err := os.ReadFile(filepath.Join(root, "docs", "security.md"))
	require.NoError(t, err)
	tests := testNames(t, root)
	testsIn(t, string(doc), tests)
	tables := strings.Split(string(doc), threats+"\n|---|---|---|\n")[1:]
	require.NotEmpty(t, tables, "docs/security.md has a table with the header %s", threats)
	for _, table := range tables {
		rows, _, _ := strings.Cut(table, "\n\n")
		for _, row := range strings.Split(strings.TrimSpace(rows), "\n") {
			cells := strings.Split(strings.Trim(row, "|"), " | ")
			require.Len(t, cells, 3, "three cells: %s", row)
			require.NotEmpty(t, testsIn(t, cells[2], tests), "no test shows it: %s", row)
		}
	}
}
