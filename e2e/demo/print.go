package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/vidra-operator/vidra/pkg/terminal"
)

// printer writes what a person sees, in colour and cut to the width of the line
// where that is wanted. Control characters of the cluster are escaped. The zero value prints nothing.
type printer struct {
	// Out is where it goes. Defaults to nowhere.
	Out io.Writer
	// Colour says whether Out understands ANSI escape codes.
	Colour bool
	// Width is how many columns a line of a table has; 0 for any number.
	Width int
}

// newPrinter prints to f: in colour if that is a terminal and NO_COLOR
// (https://no-color.org) is not set.
func newPrinter(f *os.File) *printer {
	p := &printer{Out: f}
	fd := int(f.Fd())
	if !term.IsTerminal(fd) {
		return p
	}
	p.Colour = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	p.Width, _, _ = term.GetSize(fd)
	return p
}

// The ANSI codes of what the tour marks.
const (
	bold  = terminal.Bold
	faint = terminal.Faint
	green = terminal.Green
	cyan  = terminal.Cyan
)

// mark puts text into a colour.
func (p *printer) mark(code, text string) string {
	if !p.Colour {
		return text
	}
	return terminal.Paint(code, text)
}

// Heading begins a part of what is printed.
func (p *printer) Heading(text string) { p.print("\n" + p.mark(bold, text) + "\n") }

// Line prints one line.
func (p *printer) Line(format string, args ...any) {
	p.print("  " + fmt.Sprintf(format, args...) + "\n")
}

// Command prints what a person would type.
func (p *printer) Command(text string) { p.Line("%s", p.mark(cyan, "$ "+text)) }

// Aside prints a line that says more than has to be known.
func (p *printer) Aside(format string, args ...any) {
	p.print("    " + p.mark(faint, fmt.Sprintf(format, args...)) + "\n")
}

func (p *printer) print(text string) {
	if p.Out != nil {
		_, _ = io.WriteString(&terminal.Writer{Out: p.Out}, text)
	}
}

// table prints rows in columns, the first row as a heading, as kubectl does.
func (p *printer) table(rows [][]string) {
	widths := columnWidths(rows)
	for i, row := range rows {
		line := p.cut(strings.TrimRight(padded(row, widths), " "))
		if i == 0 {
			line = p.mark(faint, line)
		}
		p.print("  " + line + "\n")
	}
}

// cut shortens a line of a table to the width, which it is printed with an
// indentation of two columns in.
func (p *printer) cut(line string) string {
	const indent, least = 2, 20
	most := p.Width - indent
	if most < least || utf8.RuneCountInString(line) <= most {
		return line
	}
	return string([]rune(line)[:most-1]) + "…"
}

func columnWidths(rows [][]string) []int {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// padded joins the cells of a row, three blanks apart like kubectl.
func padded(row []string, widths []int) string {
	const gap = 3
	var b strings.Builder
	for i, cell := range row {
		b.WriteString(cell)
		b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+gap))
	}
	return b.String()
}

// duration writes a duration in one unit: 0.8 ms, 7 ms, 210 ms, 2.4 s.
func duration(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Round(time.Millisecond)/time.Millisecond)
	default:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
}
