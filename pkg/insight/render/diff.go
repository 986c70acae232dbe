package render

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/internal/display"
)

// actionTexts are the effects on an object, and on several.
var actionTexts = []struct{ action, one, several string }{
	{insight.ActionCreate, "is created", "are created"},
	{insight.ActionChange, "changes", "change"},
	{insight.ActionAdopt, "is adopted", "are adopted"},
	{insight.ActionMove, "moves", "move"},
	{insight.ActionReplace, "is replaced", "are replaced"},
	{insight.ActionPrune, "is deleted", "are deleted"},
	{insight.ActionRelease, "is released", "are released"},
	{insight.ActionRefuse, "is refused", "are refused"},
	{insight.ActionNone, "is unchanged", "are unchanged"},
}

// DiffSummary returns the number of objects for each effect.
func DiffSummary(d *insight.Difference) string {
	var parts []string
	for _, text := range actionTexts {
		n := 0
		for _, o := range d.Objects {
			if o.Action == text.action {
				n++
			}
		}
		count, what := strconv.Itoa(n), text.several
		if len(parts) == 0 { // the others are objects, too
			count = display.Plural(n, "object")
		}
		if n == 1 {
			what = text.one
		}
		if n > 0 {
			parts = append(parts, count+" "+what)
		}
	}
	if len(parts) == 0 {
		parts = []string{"there is no object"}
	}
	text := "VidraResource " + d.VidraResource + ": " + strings.Join(parts, ", ")
	if d.Suspended {
		text += "; nothing is written while spec.suspend is true"
	}
	if d.Held {
		text += "; a new revision waits while spec.revision.hold is true"
	}
	return text
}

// signs and colours of actions.
var (
	actionSigns = map[string]string{insight.ActionCreate: "+", insight.ActionChange: "~", insight.ActionAdopt: "~", insight.ActionMove: ">", insight.ActionReplace: "!", insight.ActionPrune: "-", insight.ActionRelease: "-", insight.ActionRefuse: "x"}
	signCodes   = map[string]string{"+": green, "~": yellow, ">": yellow, "!": red, "-": red, "x": red}
)

// DiffRemarks returns the remarks about an object in addition to its diff.
func (s Style) DiffRemarks(o *insight.ObjectDifference) []string {
	var all []string
	if o.Why != "" {
		all = append(all, o.Why)
	}
	for _, c := range o.Conflicts {
		all = append(all, fmt.Sprintf("takes %s from field manager %q", c.Field, c.Manager))
	}
	all = append(all, o.Reverted...)
	for _, added := range o.AlsoRemoved {
		all = append(all, "removes "+added)
	}
	if o.Action == insight.ActionPrune {
		argument := insight.TargetOf(o.ID()).Argument()
		if o.Cluster == "" {
			all = append(all, "to keep it, unmanaged: `"+s.Program.Hint("orphan", argument)+"`")
		} else {
			all = append(all, fmt.Sprintf("to keep it, unmanaged, with a kubeconfig of its cluster: `kubectl annotate --overwrite %s %s=true`", argument, v1alpha1.KeepAnnotation))
		}
	}
	return all
}

// Verb returns the action in a text for users, who call a prune a deletion.
func Verb(o *insight.ObjectDifference) string {
	if o.Stays {
		return "keep"
	}
	if o.Action == insight.ActionPrune {
		return "delete"
	}
	return o.Action
}

// Diff returns the text about the effect of an apply of a VidraResource.
func (s Style) Diff(d *insight.Difference) string {
	var b strings.Builder
	b.WriteString(styled{DiffSummary(d), bold}.paint(s.Colour) + "\n")
	if len(d.Dropped) > 0 {
		b.WriteString("    the file drops " + Line(strings.Join(d.Dropped, ", ")) + "\n")
	}
	for _, o := range d.Objects {
		if unchanged(o) {
			continue
		}
		sign := actionSigns[o.Action]
		if o.Stays {
			sign = "="
		}
		place := ""
		if o.Place != "" {
			place = "  (" + Line(o.Place) + ")"
		}
		b.WriteString(styled{fmt.Sprintf("%s %s %s", sign, Verb(o), Line(o.Object())), signCodes[sign]}.paint(s.Colour) + place + "\n")
		for _, remark := range s.DiffRemarks(o) {
			b.WriteString("    " + Line(remark) + "\n")
		}
		s.unified(&b, "    ", o.Diff)
	}
	return b.String()
}

// unified writes the lines of a unified diff.
func (s Style) unified(b *strings.Builder, indent, diff string) {
	for line := range strings.Lines(diff) {
		line = strings.TrimRight(line, "\r\n")
		code := ""
		if line != "" {
			code = signCodes[line[:1]]
		}
		b.WriteString(indent + styled{Line(line), code}.paint(s.Colour) + "\n")
	}
}

// unchanged reports that an apply has no effect on an object, and that no edit of it stays.
func unchanged(o *insight.ObjectDifference) bool { return o.Action == insight.ActionNone && !o.Stays }

// DiffMarkdown returns a difference for a pull request.
func (s Style) DiffMarkdown(d *insight.Difference) string {
	var b strings.Builder
	fprintf(&b, "### %s\n\n", DiffSummary(d))
	if len(d.Dropped) > 0 {
		fprintf(&b, "The file drops %s.\n\n", strings.Join(d.Dropped, ", "))
	}
	changed := slices.DeleteFunc(slices.Clone(d.Objects), unchanged)
	if len(changed) == 0 {
		return b.String()
	}
	b.WriteString("| | Object | |\n|---|---|---|\n")
	for _, o := range changed {
		remarks := strings.Join(s.DiffRemarks(o), "<br>")
		fprintf(&b, "| %s | %s | %s |\n", Verb(o), cell(o.Object()), cell(remarks))
	}
	b.WriteString("\n")
	for _, o := range changed {
		if o.Diff == "" {
			continue
		}
		fence := "```"
		for strings.Contains(o.Diff, fence) {
			fence += "`"
		}
		fprintf(&b, "<details><summary>%s %s</summary>\n\n%sdiff\n", Verb(o), cell(o.Object()), fence)
		b.WriteString(safeLines("", o.Diff) + fence + "\n\n</details>\n\n")
	}
	return b.String()
}

// cell is text in a cell of a table in Markdown.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<br>", "<br>", "<", "&lt;", ">", "&gt;").Replace(Line(text))
}

// DiffLines returns the actions and the objects, one in each line, without objects that stay as they are.
func DiffLines(diff *insight.Diff) string {
	var b strings.Builder
	moved := map[string]bool{} // both VidraResources of a move may be compared
	for _, d := range diff.VidraResources {
		for _, o := range d.Objects {
			line := o.Action + " " + o.Object()
			if o.Action == insight.ActionMove {
				line += " from " + o.From + " to " + o.To
			}
			if o.Action != insight.ActionNone && !moved[line] {
				moved[line] = o.Action == insight.ActionMove
				b.WriteString(Line(line) + "\n")
			}
		}
	}
	return b.String()
}
