package display

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestName(t *testing.T) {
	require.Equal(t, "Deployment shop/web", Name("Deployment", "shop", "web"))
	require.Equal(t, "Namespace shop", Name("Namespace", "", "shop"))
}

func TestTruncate(t *testing.T) {
	for name, test := range map[string]struct {
		reason, text string
		n            int
		want         string
	}{
		"short": {reason: "a text that fits is unchanged", text: "short", n: 5, want: "short"},
		"long":  {reason: "the ellipsis takes three bytes", text: "abcdefgh", n: 7, want: "abcd…"},
		"rune":  {reason: "a rune is not split", text: "ab€€€", n: 7, want: "ab…"},
		"tiny":  {reason: "there is no room for the ellipsis", text: "abc", n: 2, want: ""},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, test.want, Truncate(test.text, test.n), test.reason) })
	}
	for n := range 40 {
		short := Truncate(strings.Repeat("aä€😀", 10), n)
		require.LessOrEqual(t, len(short), n)
		require.True(t, utf8.ValidString(short), "cut at %d bytes within a rune", n)
	}
}

func TestTruncateRunes(t *testing.T) {
	for n := 1; n < 50; n++ {
		text := strings.Repeat("aä€😀", 10)
		short := TruncateRunes(text, n)
		require.Equal(t, min(n, 40), utf8.RuneCountInString(short))
		require.Equal(t, n < 40, strings.HasSuffix(short, "…"), "only a shortened text ends with an ellipsis")
		require.True(t, strings.HasPrefix(text, strings.TrimSuffix(short, "…")))
	}
}
