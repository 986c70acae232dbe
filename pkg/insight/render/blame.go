package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vidra-operator/vidra/pkg/insight"
)

// Blame returns the lines of an object beside their owners.
func (s Style) Blame(b *insight.Blame) string {
	var out strings.Builder
	for _, source := range b.Sources {
		out.WriteString(styled{"# " + Line(source), faint}.paint(s.Colour) + "\n")
	}
	if len(b.Lines) == 0 {
		return out.String() + "The manifest has all fields.\n"
	}
	rows := make([][]styled, 0, len(b.Lines))
	for _, line := range b.Lines {
		owner := styled{code: green}
		owners := slices.Clone(line.Manifest)
		for _, m := range line.Managers {
			owners, owner.code = append(owners, by(m.Manager, m.Subresource)+", "+ago(m.Time.Time, s.Now)), yellow
		}
		owner.text = Line(strings.Join(owners, "; "))
		content := Line(line.Text)
		if len(line.Edits) > 0 {
			e := line.Edits[0]
			content += fmt.Sprintf("  # %s: %s", ago(e.Last.Time, s.Now), Line(e.Note))
		}
		rows = append(rows, []styled{owner, {text: "│ " + content}})
	}
	return out.String() + s.table().rows(rows...)
}
