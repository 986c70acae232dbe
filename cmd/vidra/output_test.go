package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// TestPrintDocument: documents have graphic characters only, and are read as what was printed.
func TestPrintDocument(t *testing.T) {
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
			for output, read := range map[string]func([]byte, any) error{outputJSON: json.Unmarshal, outputYAML: yamlReader} {
				var out bytes.Buffer
				require.NoError(t, printDocument(&out, output, map[string]string{"text": tt.text}))
				for _, r := range out.String() {
					require.True(t, unicode.IsPrint(r) || r == '\n' || r == '\t', "%q in %q", r, out.String())
				}
				var got map[string]string
				require.NoError(t, read(out.Bytes(), &got), out.String())
				require.Equal(t, map[string]string{"text": tt.text}, got, tt.reason)
				if output == outputYAML {
					require.Equal(t, tt.json, json.Valid(out.Bytes()), tt.reason)
				}
			}
		})
	}
}
