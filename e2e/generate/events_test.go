package generate

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/events"
)

// rewrite is the environment variable that has TestEventsAreDocumented write the file
// instead of comparing it.
const rewrite = "VIDRA_GENERATE"

// Between these lines, docs/events.md is made of the catalogue.
const (
	catalogueBegins = "<!-- Made of pkg/events/catalogue.go: VIDRA_GENERATE=1 go test ./e2e/generate -run TestEventsAreDocumented -->\n"
	catalogueEnds   = "<!-- End of what is made. -->\n"
)

// TestEventsAreDocumented keeps docs/events.md and the catalogue of Events together.
func TestEventsAreDocumented(t *testing.T) {
	root, err := testenv.Root()
	require.NoError(t, err)
	path := filepath.Join(root, "docs", "events.md")
	read, err := os.ReadFile(path) //nolint:gosec // a file of this repository
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(read), catalogueBegins)
	require.True(t, found, "docs/events.md has no line %q", catalogueBegins)
	_, after, found := strings.Cut(rest, catalogueEnds)
	require.True(t, found, "docs/events.md has no line %q", catalogueEnds)

	want := before + catalogueBegins + describe(events.Catalogue()) + catalogueEnds + after
	if os.Getenv(rewrite) != "" {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o600))
		return
	}
	require.Equal(t, want, string(read), "docs/events.md is out of date: run `%s=1 go test ./e2e/generate -run %s`", rewrite, t.Name())
}

// describe tells of Events in Markdown: a table to look them up, and a section each.
func describe(catalogue []events.Entry) string {
	var b strings.Builder
	b.WriteString("\n| Reason | Type | Action | Regards |\n|---|---|---|---|\n")
	for _, entry := range catalogue {
		regards := "VidraResource"
		switch {
		case entry.OnObject:
			regards = "the object"
		case entry.OnBoth:
			regards = "VidraResource, and the object"
		}
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s | %s |\n", entry.Reason, strings.ToLower(entry.Reason), entry.Type, strings.Join(entry.Actions, ", "), regards)
	}
	for _, entry := range catalogue {
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\nWhat to do: %s\n", entry.Reason, entry.When, entry.Do)
	}
	b.WriteString("\n")
	return b.String()
}
