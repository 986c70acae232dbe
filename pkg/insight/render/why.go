package render

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/internal/display"
)

// shownFields is how many fields are listed without -o wide, and shownEdits how many edits.
const (
	shownFields = 5
	shownEdits  = 5
)

// explanation writes an answer.
type explanation struct {
	explanation *insight.Explanation
	style       Style
}

// Why returns the explanation of an object.
func (s Style) Why(answer *insight.Explanation) string {
	e := explanation{answer, s}
	var b strings.Builder
	title := func(text string) { fprintf(&b, "\n%s\n", styled{text, bold}.paint(s.Colour)) }
	b.WriteString(styled{e.explanation.Object, bold}.paint(s.Colour) + "\n")
	for _, m := range e.explanation.ManagedBy {
		fprintf(&b, "  managed by  VidraResource %s%s\n", m.VidraResource, remarks(m))
		if m.DefinedIn != "" {
			fprintf(&b, "  defined in  %s\n", m.DefinedIn)
		}
		if g := m.BreakGlass; g != nil {
			fprintf(&b, "  break-glass %s%s: %s\n", g.State, until(g), flat(g.Message))
		}
		for _, p := range m.Problems {
			fprintf(&b, "  problem     %s: %s\n", p.Reason, flat(p.Message))
		}
	}
	if e.explanation.Absent {
		b.WriteString("  it does not exist\n")
	}
	for _, note := range e.explanation.Notes {
		fprintf(&b, "  note        %s\n", note)
	}
	title("Last edits")
	e.lastEdits(&b)
	e.keep(&b, title)
	e.fields(&b, title)
	if len(e.explanation.Missing) > 0 {
		title("Not shown")
		for _, missing := range e.explanation.Missing {
			fprintf(&b, "%s\n", Line(missing))
		}
	}
	return b.String()
}

// lastEdits prints the last edits, and who may know the user of an edit.
func (e explanation) lastEdits(b *strings.Builder) {
	if len(e.explanation.Edits) == 0 {
		b.WriteString("none are known\n")
		return
	}
	shown := e.explanation.Edits
	if !e.style.Wide {
		shown = shown[:min(len(shown), shownEdits)]
	}
	repeated := slices.ContainsFunc(shown, func(edit insight.Edit) bool { return edit.Count > 1 })
	var rows [][]styled
	for _, edit := range shown {
		row := plain(ago(edit.Last.Time, e.style.Now))
		if repeated {
			row = append(row, styled{text: display.Plural(int(edit.Count), "time")})
		}
		if e.style.Wide {
			row = append(row, styled{edit.Reason, yellow})
		}
		rows = append(rows, append(row, styled{text: Line(edit.Note)}))
	}
	b.WriteString(e.style.table().rows(rows...))
	if more := len(e.explanation.Edits) - len(shown); more > 0 {
		fprintf(b, "... and %d more, with -o wide\n", more)
	}
	if i := slices.IndexFunc(shown, func(edit insight.Edit) bool { return edit.User == "" }); i >= 0 {
		fprintf(b, "A name in quotes is a program (the field manager): Kubernetes does not store the user of an edit in the object.\n"+
			"The policy stamp has Vidra name the user (docs/policies.md). The audit log of the API server has the user: %s, %s.\n",
			e.explanation.Object, shown[i].Last.UTC().Format(time.RFC3339))
	}
}

// remarks describe the handling of the object by a VidraResource.
func remarks(m insight.ManagedBy) string {
	var all []string
	if m.Cluster != "" {
		all = append(all, "in the cluster "+Line(m.Cluster))
	}
	if m.State != "" {
		all = append(all, "state "+m.State)
	}
	if handling := Handling(m); handling != "" {
		all = append(all, handling)
	}
	if len(all) == 0 {
		return ""
	}
	return " (" + strings.Join(all, "; ") + ")"
}

// Handling describes the handling of edits of the object by a VidraResource; empty if it is unknown.
func Handling(m insight.ManagedBy) string {
	switch {
	case m.Apply.Leaves():
		return "apply " + string(m.Apply) + ": edits are left"
	case m.Suspended:
		return "suspended: edits are not reverted"
	case m.Exempt != nil:
		return "no edit is reverted" + until(m.Exempt) + ": exemption by break-glass"
	case m.State == string(v1alpha1.ObjectDrifted) && m.Drift == string(v1alpha1.DriftCorrect): // such as of an unreadable manifest
		return "an edit of it is not reverted now"
	}
	return ModeText(v1alpha1.DriftMode(m.Drift))
}

// until is the end of an exemption.
func until(g *v1alpha1.BreakGlassStatus) string {
	if g.Until == nil {
		return ""
	}
	return " until " + g.Until.UTC().Format(time.RFC3339)
}

// few are the first of some names.
func (e explanation) few(names []string) string {
	more := ""
	if len(names) > shownFields && !e.style.Wide {
		more = fmt.Sprintf(" and %d more (-o wide lists all)", len(names)-shownFields)
		names = names[:shownFields]
	}
	return Line(strings.Join(names, ", ")) + more
}

// keep describes the ways to keep a change.
func (e explanation) keep(b *strings.Builder, title func(string)) {
	for _, m := range e.explanation.ManagedBy {
		if m.LinesFrom == "" {
			continue
		}
		name := ""
		if len(e.explanation.ManagedBy) > 1 {
			name = " against VidraResource " + m.VidraResource
		}
		title("To keep a change" + name)
		if m.Apply.Leaves() {
			fprintf(b, "Edit the object: Vidra changes nothing of it, by its annotation %s in the manifest.\n", v1alpha1.ApplyAnnotation)
			continue
		}
		ways := 0
		way := func(format string, args ...any) {
			ways++
			fprintf(b, "%d. "+format+"\n", append([]any{ways}, args...)...)
		}
		way("Make it in the manifest, or where the VidraResource comes from (lines count from the start of %s):", m.LinesFrom)
		for _, line := range m.Lines {
			field := line.Field
			if field == "" {
				field = "the object: remove it there to keep it deleted"
			}
			fprintf(b, "     %s  (%s)\n", line.Place, Line(field))
		}
		fprintf(b, "     %s\n", m.EditWith)
		if m.Rule != nil {
			keepByRule(m, b, way)
		}
		there := ""
		if m.Cluster != "" {
			there = ", with a kubeconfig of its cluster"
		}
		switch {
		case m.Exempt != nil:
			way("All edits of the object are kept%s. To end that%s:\n     %s", until(m.Exempt), there, m.SkipWith)
		case m.SkipWith != "":
			way("Keep all edits of the object for a while%s:\n     %s", there, m.SkipWith)
		}
	}
}

// keepByRule describes the rule that leaves the fields to others.
func keepByRule(m insight.ManagedBy, b *strings.Builder, way func(format string, args ...any)) {
	what, with := "the field", ""
	switch {
	case m.Example:
		with = ", with the path of your field"
	case len(m.Rule.Paths) > 1:
		what, with = "the fields", ", without the paths that you do not mean"
	}
	rules := "this rule"
	if len(m.Rules) > 0 {
		rules = "these rules, of which the last one is new,"
	}
	way("Leave %s to others: paste %s into VidraResource %s%s, and make your change again", what, rules, m.VidraResource, with)
	rule, err := RuleYAML(m.Rules, *m.Rule)
	if err != nil {
		rule = err.Error()
	}
	b.WriteString(safeLines("     ", rule))
}
