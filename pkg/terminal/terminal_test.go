package terminal

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// hostile are texts that a cluster could have somewhere.
var hostile = map[string]string{
	"CSI":         "\x1b[31mred",
	"OSC8":        "\x1b]8;;http://example.com\x1b\\link\x1b]8;;\x1b\\",
	"OSC52":       "\x1b]52;c;aGk=\x07",
	"Title":       "\x1b]0;title\x07",
	"C1":          "\u009b31m\u0090\u009d",
	"C1Byte":      "\x9b31m",
	"Bell":        "\a",
	"Return":      "real\rfake",
	"Backspace":   "real\b\b\b\bfake",
	"Delete":      "\x7f",
	"Bidi":        "\u202eevil\u2066\u2069\u200f",
	"ZeroWidth":   "a\u200bb\u200d\ufeff",
	"Separator":   "a\u2028b\u2029c\u0085d",
	"Tag":         "\U000e0041\U000e007f",
	"NonCharater": "\ufdd0\ufdd0",
}

// graphic reports whether all characters of a text are graphic, but for those that are allowed.
func graphic(text, allowed string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) && !strings.ContainsRune(allowed, r) }) < 0
}

func TestEscape(t *testing.T) {
	for name, text := range hostile {
		t.Run(name, func(t *testing.T) {
			safe := Escape(text + "\n\t")
			require.True(t, graphic(safe, ""), "%q", safe)
			require.Equal(t, safe, Escape(safe), "twice is as once")
		})
	}
	const plain = `Ein Text, "mit" Zeichen: 日本語 😀 \n`
	require.Equal(t, plain, Escape(plain))
}

func TestWriter(t *testing.T) {
	for name, text := range hostile {
		t.Run(name, func(t *testing.T) {
			var whole, bytewise bytes.Buffer
			n, err := (&Writer{Out: &whole}).Write([]byte(text + "\n\tend"))
			require.NoError(t, err)
			require.Equal(t, len(text)+5, n)
			require.True(t, graphic(whole.String(), "\n\t"), "%q", whole.String())
			require.True(t, strings.HasSuffix(whole.String(), "\n\tend"))
			one := &Writer{Out: &bytewise}
			for i := range text {
				for _, b := range []byte(text[i : i+1]) {
					_, err := one.Write([]byte{b})
					require.NoError(t, err)
				}
			}
			require.True(t, graphic(bytewise.String(), "\n\t"), "%q", bytewise.String())
		})
	}
}

// TestWriterKeepsJSON: JSON stays the same document.
func TestWriterKeepsJSON(t *testing.T) {
	for name, text := range hostile {
		if name == "C1Byte" {
			continue // this is no JSON
		}
		document, err := json.Marshal(map[string]string{"message": text})
		require.NoError(t, err)
		var out bytes.Buffer
		_, err = (&Writer{Out: &out}).Write(document)
		require.NoError(t, err)
		require.JSONEq(t, string(document), out.String(), name)
	}
}

// TestWriterSplit: a character that two writes share is written once.
func TestWriterSplit(t *testing.T) {
	const text = "aä日😀\u202e!"
	for i := range len(text) + 1 {
		var out bytes.Buffer
		w := &Writer{Out: &out}
		for _, part := range []string{text[:i], text[i:]} {
			n, err := w.Write([]byte(part))
			require.NoError(t, err)
			require.Len(t, part, n)
		}
		require.Equal(t, `aä日😀\u202e!`, out.String(), "split at %d", i)
	}
}

// TestPaint: the codes are written, and those in the text are not.
func TestPaint(t *testing.T) {
	var out bytes.Buffer
	painted := "x " + Paint(Red, "bad\x1b[0m\n") + " y\x1b[1m"
	require.NotContains(t, Paint(Red, "bad"), "\x1b", "only a Writer writes it")
	require.Equal(t, Paint(Red, "bad"), Escape(Paint(Red, "bad")))
	_, err := (&Writer{Out: &out}).Write([]byte(painted))
	require.NoError(t, err)
	require.Equal(t, "x \x1b[31mbad\\x1b[0m\\n\x1b[0m y\\u001b[1m", out.String())
}

func TestWriterFails(t *testing.T) {
	_, err := (&Writer{Out: failing{}}).Write([]byte("a"))
	require.ErrorIs(t, err, errFull)
}

var errFull = errors.New("full")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFull }
