// Package display shortens text for messages, counts nouns, and names objects in them, with the group of a kind where the kind alone
// is ambiguous.
package display

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/vidra-operator/vidra/pkg/terminal"
)

// Line returns a text in one line, for a terminal or a page: white space is a blank, and other characters that are not graphic are their escapes in Go.
// Messages and values come from controllers, users and other clusters. Line is idempotent.
func Line(text string) string {
	return terminal.Escape(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		return r
	}, text))
}

// Ellipsis ends a text that was shortened.
const Ellipsis = "…"

// Name returns the name of an object in messages, such as "Deployment shop/web" or "Namespace shop".
func Name(kind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return kind + " " + name
}

// First returns the first most of several names, and counts the others of all.
func First(names []string, most, all int) string {
	most = min(len(names), most)
	text := strings.Join(names[:most], ", ")
	if more := all - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Truncate shortens text to at most n bytes, at a rune boundary. The last rune of a shortened text is
// an Ellipsis, of three bytes.
func Truncate(text string, n int) string {
	if len(text) <= n {
		return text
	}
	if n < len(Ellipsis) {
		return ""
	}
	end := n - len(Ellipsis)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + Ellipsis
}

// TruncateRunes shortens text to at most n runes. The last one of a shortened text is an ellipsis. n must be at least 1.
func TruncateRunes(text string, n int) string {
	runes, end := 0, 0
	for i := range text {
		if runes == n-1 {
			end = i
		}
		if runes == n {
			return text[:end] + Ellipsis
		}
		runes++
	}
	return text
}

// Plural returns a number with its noun, such as "1 object" or "2 objects".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "ch") {
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

var (
	// localPort is the local end of a connection in an error of the network, or the number of a stream in it.
	localPort = regexp.MustCompile(`\S+:\d+->|stream ID \d+; |LastStreamID=\d+, `)
	// wholeAnswer is an answer of an API server in an error about its kind or version (k8s.io/apimachinery/pkg/runtime, NewMissingKindErr).
	wholeAnswer = regexp.MustCompile(`(?s)(Object '(?:Kind|apiVersion)' is missing in) '.*'`)
)

// WithText returns an error with another text, and err as its cause.
func WithText(err error, text string) error { return &withText{error: err, text: text} }

type withText struct {
	error
	text string
}

func (w *withText) Error() string { return w.text }
func (w *withText) Unwrap() error { return w.error }

// ErrorText returns the text of an error as it is shown. It removes the local end of a connection, and the number of its stream: they differ each time, and
// repeated errors have equal texts. It removes an answer of an API server that the text quotes as a whole, as the answer may be a Secret, or a list of Secrets.
func ErrorText(text string) string {
	return wholeAnswer.ReplaceAllString(localPort.ReplaceAllString(text, ""), "$1 an answer of the API server")
}
