package render

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/internal/display"
)

// Forecast returns the fields of a VidraResource that others write.
func (s Style) Forecast(f *insight.Forecast) string {
	var b strings.Builder
	fights := 0
	for _, field := range f.Fields {
		b.WriteString(s.contested(&field))
		if field.Fights {
			fights++
		}
	}
	for _, c := range f.Controlled {
		fprintf(&b, "= %s\n", Controlled(c))
	}
	for _, missing := range f.Missing {
		b.WriteString(styled{"? not checked: " + Line(missing), red}.paint(s.Colour) + "\n")
	}
	fprintf(&b, "VidraResource %s: %s will fight, %d taken once\n", f.VidraResource, display.Plural(fights, "field"), len(f.Fields)-fights)
	if fights == 0 {
		return b.String()
	}
	rules, err := RuleYAML(f.Existing, f.Rules...)
	if err != nil {
		rules = err.Error() + "\n"
	}
	fprintf(&b, "\nTo leave the fields that fight to their writers, without a reset of their values:\n")
	fprintf(&b, "1. Paste this into VidraResource %s, and apply it:\n", f.VidraResource)
	b.WriteString(safeLines("     ", rules))
	if !f.Applied { // nothing is applied yet
		b.WriteString("   The fields are set when an object is created, and then left to their writers.\n")
		return b.String()
	}
	fprintf(&b, "2. Wait until Vidra has released the fields: `%s`\n", s.Program.Hint("wait", f.VidraResource))
	b.WriteString("3. Then you may omit the fields from the manifest. If you omit a field before step 1, its value is removed\n" +
		"   or reset to the default of the API server, for example spec.replicas to 1.\n")
	return b.String()
}

// Controlled returns the fields of an object that are left to their controllers.
func Controlled(c insight.ControlledFields) string {
	return Line(fmt.Sprintf("%s: left to the controllers that write it (spec.drift.controllerFields): %s", display.Name(c.Kind, c.Namespace, c.Name), strings.Join(c.Fields, ", ")))
}

// contested is a field that others write.
func (s Style) contested(c *insight.ContestedField) string {
	sign, what := styled{"~", yellow}, "the apply takes it once"
	if c.Fights {
		sign, what = styled{"!", red}, "this will fight"
		if c.NotBefore != nil {
			what += " when its break-glass ends, at " + c.NotBefore.UTC().Format(time.RFC3339)
		}
	}
	text := fmt.Sprintf("%s %s: %s writes %s: %s\n", sign.paint(s.Colour), Line(c.Object()), Line(c.Writer), Line(c.Field), what)
	if c.Now != "" || c.Wanted != "" {
		text += fmt.Sprintf("    it is %s, and the manifest has %s\n", Line(cmp.Or(c.Now, "no value")), Line(cmp.Or(c.Wanted, "no value")))
	}
	if c.Times > 0 {
		text += fmt.Sprintf("    status.history has that %s, %s\n", display.Plural(int(c.Times), "time"), "last at "+c.Last.UTC().Format(time.RFC3339))
	}
	if c.Place != "" {
		text += fmt.Sprintf("    %s\n", Line(c.Place))
	}
	return text
}
