package render

import (
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/terminal"
)

// The ANSI codes of the output.
const (
	bold   = terminal.Bold
	faint  = terminal.Faint
	red    = terminal.Red
	green  = terminal.Green
	yellow = terminal.Yellow
)

// Line escapes text from a cluster, such as a name or a message, for one line of a terminal.
func Line(text string) string { return terminal.Escape(text) }

// Plural returns a number with a noun.
func Plural(n int, noun string) string { return display.Plural(n, noun) }

// flat is Line for a message of several lines, which become one.
func flat(text string) string { return Line(strings.Join(strings.Fields(text), " ")) }

// Sprintf formats text with arguments that come from clusters: each argument is escaped, but for colours from paint.
func Sprintf(format string, args ...any) string {
	safe := make([]any, len(args))
	for i, arg := range args {
		switch v := arg.(type) {
		case error, fmt.Stringer:
			safe[i] = Line(fmt.Sprint(v))
		default:
			if safe[i] = arg; reflect.ValueOf(arg).Kind() == reflect.String {
				safe[i] = Line(reflect.ValueOf(arg).String())
			}
		}
	}
	return fmt.Sprintf(format, safe...)
}

// safeLines escapes each line of a text, and indents it.
func safeLines(indent, text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(indent + Line(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return b.String()
}

// fprintf is Sprintf into a text.
func fprintf(b *strings.Builder, format string, args ...any) { b.WriteString(Sprintf(format, args...)) }

// styled is a text within a line, with an ANSI code; empty for none.
type styled struct{ text, code string }

// plain are texts without a code.
func plain(texts ...string) []styled {
	cells := make([]styled, 0, len(texts))
	for _, text := range texts {
		cells = append(cells, styled{text: text})
	}
	return cells
}

// paint makes the text safe for a terminal, and adds its codes where colours are shown.
func (s styled) paint(colour bool) string {
	if colour && s.code != "" {
		return terminal.Paint(s.code, s.text)
	}
	return Line(s.text)
}

// width is how many characters the text has.
func (s styled) width() int { return utf8.RuneCountInString(Line(s.text)) }

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
				t.widths[i] = max(t.widths[i], cell.width())
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
				b.WriteString(strings.Repeat(" ", t.widths[i]-cell.width()+gap))
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

// Table returns rows of texts as lines, with their columns aligned.
func Table(rows ...[]string) string {
	cells := make([][]styled, 0, len(rows))
	for _, row := range rows {
		cells = append(cells, plain(row...))
	}
	return (&textTable{}).rows(cells...)
}
