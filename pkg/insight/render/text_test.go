package render

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLine(t *testing.T) {
	tests := map[string]struct{ reason, text, want string }{
		"plain":    {reason: "is left alone", text: `data.color "rot" -> "grün", set by "me"…`, want: `data.color "rot" -> "grün", set by "me"…`},
		"escape":   {reason: "would colour, or worse", text: "\x1b[31mred\x1b]0;title\a", want: `\x1b[31mred\x1b]0;title\a`},
		"lines":    {reason: "a row is one line", text: "one\ntwo\r\tthree", want: `one\ntwo\r\tthree`},
		"C1":       {reason: "is ESC [ to some terminals", text: "\u009b31m", want: `\u009b31m`},
		"delete":   {reason: "is a control character, too", text: "a\x7f", want: `a\x7f`},
		"bidi":     {reason: "would turn the line around", text: "a\u202eb", want: `a\u202eb`},
		"tag":      {reason: "is not seen", text: "a\U000e0041", want: `a\U000e0041`},
		"not UTF8": {reason: "is no text", text: "a\x9bb", want: "a\ufffdb"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, Line(tt.text), tt.reason)
		})
	}
}
