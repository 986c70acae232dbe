package main

import (
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// The ANSI codes of the output.
const (
	bold   = "1"
	faint  = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

// coloured reports whether out is a terminal that shows colours, and NO_COLOR
// (https://no-color.org) is not set.
func coloured(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// styled is a text with an ANSI code; empty for none.
type styled struct{ text, code string }

// plain are texts without a code.
func plain(texts ...string) []styled {
	cells := make([]styled, 0, len(texts))
	for _, text := range texts {
		cells = append(cells, styled{text: text})
	}
	return cells
}

// paint adds the codes of a text where colours are shown.
func (s styled) paint(colour bool) string {
	if colour && s.code != "" {
		return "\x1b[" + s.code + "m" + s.text + "\x1b[0m"
	}
	return s.text
}

// textTable aligns columns, three blanks apart like kubectl. A column becomes wider with the rows, and
// never narrower. The last column is not aligned.
type textTable struct {
	// colour is whether ANSI codes are written.
	colour bool
	// widths of the columns so far; the last one does not count.
	widths []int
}

// grow makes the columns wide enough for rows.
func (t *textTable) grow(rows ...[]styled) {
	for _, row := range rows {
		for i, cell := range row {
			if i == len(t.widths) {
				t.widths = append(t.widths, 0)
			}
			if i < len(row)-1 {
				t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cell.text))
			}
		}
	}
}

// rows are rows as lines.
func (t *textTable) rows(rows ...[]styled) string {
	const gap = 3
	t.grow(rows...)
	var b strings.Builder
	for _, row := range rows {
		for i, cell := range row {
			b.WriteString(cell.paint(t.colour))
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(cell.text)+gap))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// heading is the first row of a table.
func heading(names ...string) []styled {
	row := plain(names...)
	for i := range row {
		row[i].code = faint
	}
	return row
}
