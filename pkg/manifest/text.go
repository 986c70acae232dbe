package manifest

import (
	"iter"
	"strings"
	"unicode/utf8"
)

// byteOrderMark is written by some editors at the start of a UTF-8 file.
const byteOrderMark = "\uFEFF"

// lines yields each line of a text, without its line break, and its offset. A line ends with LF, CRLF or CR, as in YAML 1.2;
// the text after the last break is a line too, even when it is empty.
func lines(text string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		start := 0
		for {
			end := strings.IndexAny(text[start:], "\r\n")
			if end < 0 {
				yield(start, text[start:])
				return
			}
			end += start
			if !yield(start, text[start:end]) {
				return
			}
			if strings.HasPrefix(text[end:], "\r\n") {
				end++
			}
			start = end + 1
		}
	}
}

// lineAt returns the number, from 1, of the line at an offset.
func lineAt(text string, offset int) int {
	n := 0
	for range lines(text[:min(offset, len(text))]) {
		n++
	}
	return n
}

// lineText returns the line with the given number, from 1, or "".
func lineText(text string, number int) string {
	for _, line := range lines(text) {
		if number--; number == 0 {
			return line
		}
	}
	return ""
}

// invalidUTF8 returns the offset of the first byte that is not UTF-8, or -1.
func invalidUTF8(text string) int {
	if utf8.ValidString(text) {
		return -1
	}
	for i, r := range text {
		if r != utf8.RuneError {
			continue
		}
		if _, size := utf8.DecodeRuneInString(text[i:]); size == 1 {
			return i
		}
	}
	return -1
}

// unprintable returns the offset of the first character that YAML does not
// allow anywhere (YAML 1.2, 5.1), or -1.
func unprintable(text string) int {
	return strings.IndexFunc(text, func(r rune) bool {
		switch {
		case r == '\t', r == '\n', r == '\r', r == 0x85:
			return false
		case r < 0x20, r >= 0x7F && r < 0xA0, r == 0xFFFE, r == 0xFFFF:
			return true
		}
		return false
	})
}

// indentation returns the number of spaces that a line begins with.
func indentation(line string) int {
	return len(line) - len(strings.TrimLeft(line, " "))
}

// isBlank reports whether a line holds nothing, or nothing but a comment.
func isBlank(line string) bool {
	line = strings.TrimLeft(line, " \t")
	return line == "" || line[0] == '#'
}
