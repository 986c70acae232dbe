package mcp

import (
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

// TestContentIsBounded: a result is short enough, whatever its parts are, and says that it was cut.
func TestContentIsBounded(t *testing.T) {
	many := make([]string, 1000)
	for i := range many {
		many[i] = strings.Repeat("you may not read it ", 50)
	}
	tests := map[string]struct {
		reason, document string
		remarks          []string
		cut              bool
	}{
		"short":   {reason: "as it is", document: "{}", remarks: []string{"a\nb"}},
		"long":    {reason: "the document is cut", document: strings.Repeat("größer", MaxResult), cut: true},
		"remarks": {reason: "so are the remarks", document: "{}", remarks: many},
		"both":    {reason: "the document leaves room for them", document: strings.Repeat("x", 2*MaxResult), remarks: many, cut: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			length, text := 0, ""
			for _, c := range content(tt.document, tt.remarks...) {
				one := c.(*mcp.TextContent).Text
				length, text = length+len(one), text+one
			}
			require.LessOrEqual(t, length, MaxResult, tt.reason)
			require.Equal(t, tt.cut, strings.Contains(text, "was cut"), tt.reason)
		})
	}
}
