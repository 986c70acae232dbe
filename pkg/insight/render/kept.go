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
	s.unified(&b, "", k.Diff)
	return b.String()
}
