package render

import (
	"strings"

	"github.com/vidra-operator/vidra/pkg/insight"
)

// Kept returns the text about an edit in its manifest.
func (s Style) Kept(k *insight.Kept) string {
	var b strings.Builder
	fprintf(&b, "%s\n", styled{k.Object + ": " + k.Edit, bold}.paint(s.Colour))
	for _, field := range k.Fields {
		fprintf(&b, "  %s  %s\n", field.Field, field.Place)
	}
	if k.Diff == "" && k.Manual == "" {
		b.WriteString("the manifest has these values\n")
	}
	for line := range strings.Lines(k.Diff) {
		line = strings.TrimRight(line, "\r\n")
		code := ""
		if line != "" {
			code = signCodes[line[:1]]
		}
		b.WriteString(styled{Line(line), code}.paint(s.Colour) + "\n")
	}
	return b.String()
}
