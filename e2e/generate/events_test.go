package generate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/sync"
)

// TestEventsAreDocumented keeps docs/events.md and the catalogue of Events together.
func TestEventsAreDocumented(t *testing.T) {
	Section(t, "docs/events.md", "pkg/events/catalogue.go", describe(events.Catalogue()))
}

// TestSyncEventsAreDocumented keeps the Events about InfrahubSyncs in docs/events.md.
func TestSyncEventsAreDocumented(t *testing.T) {
	var b strings.Builder
	b.WriteString("| Reason | Type | When | What to do |\n|---|---|---|---|\n")
	for _, entry := range sync.Catalogue() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", entry.Reason, entry.Type, Cell(entry.When), Cell(entry.Do))
	}
	Section(t, "docs/events.md", "pkg/sync/events.go", b.String())
}

// describe describes Events in Markdown: a table to look them up, and a section each.
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
