// Package terminal makes text safe to print. Names, messages and values come from clusters, which may be hostile: a
// control character in them can move the cursor, set the title of the window, or write to the clipboard of the reader.
//
// [Escape] is for a text within a line, and [Writer] for all output to a terminal or a log. Only the colours of [Paint]
// become control characters.
package terminal

import (
	"crypto/rand"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// The ANSI codes of [Paint].
const (
	Bold   = "1"
	Faint  = "2"
	Red    = "31"
	Green  = "32"
	Yellow = "33"
	Cyan   = "36"
)

// mark stands for the begin of an ANSI code until it is written. No cluster can guess it.
var mark = "\uFDD0" + rand.Text()

// Escape replaces all characters but graphic ones and blanks by their escapes in Go. Line ends and tabs are replaced, too. Text
// from [Paint] keeps its colours. Escape is idempotent.
func Escape(text string) string {
	return escape(text, func(r rune) string {
		quoted := strconv.QuoteRune(r)
		return quoted[1 : len(quoted)-1]
	})
}

// EscapeJSON replaces all characters but graphic ones, blanks, tabs and line ends by their escapes in JSON strings.
func EscapeJSON(text string) string {
	return escapeDocument(text, func(r rune) string {
		first, second := utf16.EncodeRune(r)
		return fmt.Sprintf(`\u%04x\u%04x`, first, second)
	})
}

// EscapeYAML is EscapeJSON for YAML documents: YAML has no surrogates.
func EscapeYAML(text string) string {
	return escapeDocument(text, func(r rune) string { return fmt.Sprintf(`\U%08x`, r) })
}

// escapeDocument is EscapeJSON with another escape for characters of more than 16 bits: long.
func escapeDocument(text string, long func(rune) string) string {
	return escape(text, func(r rune) string {
		switch {
		case r == '\n', r == '\t':
			return string(r)
		case r > math.MaxUint16:
			return long(r)
		}
		return fmt.Sprintf(`\u%04x`, r)
	})
}

// escape replaces all characters but graphic ones and blanks. It keeps mark.
func escape(text string, replace func(rune) string) string {
	if strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for i, part := range strings.Split(text, mark) {
		if i > 0 {
			b.WriteString(mark)
		}
		for _, r := range part {
			if unicode.IsPrint(r) {
				b.WriteRune(r)
			} else {
				b.WriteString(replace(r))
			}
		}
	}
	return b.String()
}

// Paint returns an escaped text with an ANSI code. The result has to be written to a [Writer].
func Paint(code, text string) string { return mark + code + "m" + Escape(text) + mark + "0m" }

// Writer writes text to Out, with the escapes of [EscapeJSON] and the colours of [Paint]. It is safe for concurrent use.
type Writer struct {
	// Out is where the text goes. It must not be changed after the first Write.
	Out io.Writer

	// mu guards rest, and orders the writes.
	mu sync.Mutex
	// rest is the first part of a character that the last write left incomplete.
	rest []byte
}

// Write writes text. It returns the length of text if all of it was written.
func (w *Writer) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := slices.Concat(w.rest, text)
	end := complete(all)
	safe := EscapeJSON(string(all[:end]))
	w.rest = slices.Clone(all[end:])
	if _, err := io.WriteString(w.Out, strings.ReplaceAll(safe, mark, "\x1b[")); err != nil {
		return 0, err
	}
	return len(text), nil
}

// complete is the length of text without an incomplete character at its end.
func complete(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if last := text[len(text)-n:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return len(text) - n
			}
			break
		}
	}
	return len(text)
}
