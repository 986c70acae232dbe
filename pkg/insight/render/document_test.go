package render

import (
	"encoding/json"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// TestDocument: documents have graphic characters only, and are read as what was printed.
func TestDocument(t *testing.T) {
	tests := map[string]struct {
		reason, text string
		// json reports that YAML is printed as JSON.
		json bool
	}{
		"Plain":   {"what is graphic is YAML as usual", "größer: 日本", false},
		"C0":      {"YAML escapes it", "a\x1b[31m\a\r\x7f", false},
		"C1":      {"YAML escapes it", "a\u009b31m\u0085", false},
		"Lines":   {"line ends and tabs are harmless within a document", "a\n\tb\n", false},
		"Bidi":    {"YAML does not escape it", "a\u202eb\u2066\u200b", true},
		"Tag":     {"YAML does not escape it, and has no surrogates", "a\U000e0041", false},
		"Newline": {"what begins a line stays within its text", "a\nfake: true", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for output, read := range map[string]func([]byte, any) error{JSON: json.Unmarshal, YAML: yamlReader} {
				document, err := Document(output, map[string]string{"text": tt.text})
				require.NoError(t, err)
				for _, r := range document {
					require.True(t, unicode.IsPrint(r) || r == '\n' || r == '\t', "%q in %q", r, document)
				}
				var got map[string]string
				require.NoError(t, read([]byte(document), &got), document)
				require.Equal(t, map[string]string{"text": tt.text}, got, tt.reason)
				if output == YAML {
					require.Equal(t, tt.json, json.Valid([]byte(document)), tt.reason)
				}
			}
		})
	}
}
