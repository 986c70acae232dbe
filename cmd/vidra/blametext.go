package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// text are lines for users.
func (b *blame) text(lines []blameLine, colour bool, now time.Time) string {
	var out strings.Builder
	for _, source := range b.sources {
		out.WriteString(styled{"# " + oneLine(source), faint}.paint(colour) + "\n")
	}
	if len(lines) == 0 {
		return out.String() + "The manifest has all fields.\n"
	}
	text := &textTable{colour: colour}
	rows := make([][]styled, 0, len(lines))
	for _, line := range lines {
		owner := styled{code: green}
		owners := slices.Clone(line.Manifest)
		for _, m := range line.Managers {
			name := m.Manager
			if m.Subresource != "" {
				name += " through " + m.Subresource
			}
			owners, owner.code = append(owners, name+", "+ageOf(m.Time.Time, now)+" ago"), yellow
		}
		owner.text = oneLine(strings.Join(owners, "; "))
		content := oneLine(line.Text)
		if len(line.Edits) > 0 {
			e := line.Edits[0]
			content += fmt.Sprintf("  # %s ago: %s", ageOf(e.Last.Time, now), oneLine(e.Note))
		}
		rows = append(rows, []styled{owner, {text: "│ " + content}})
	}
	return out.String() + text.rows(rows...)
}
