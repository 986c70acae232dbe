package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// shownFields is how many fields are listed without -o wide, and shownEdits how many edits.
const (
	shownFields = 12
	shownEdits  = 5
)

// text is the explanation for users.
func (e *explanation) text(t *target, colour, wide bool, now time.Time) string {
	var b strings.Builder
	title := func(text string) { fmt.Fprintf(&b, "\n%s\n", styled{text, bold}.paint(colour)) }
	b.WriteString(styled{t.id.String(), bold}.paint(colour) + "\n")
	for _, m := range e.ManagedBy {
		fmt.Fprintf(&b, "  managed by  VidraResource %s%s\n", m.VidraResource, m.remarks())
		if m.DefinedIn != "" {
			fmt.Fprintf(&b, "  defined in  %s\n", m.DefinedIn)
		}
		if len(m.Fields) > 0 {
			fmt.Fprintf(&b, "  owns        %s\n", few(m.Fields, wide))
		}
		if len(m.Left) > 0 {
			fmt.Fprintf(&b, "  ignores     %s, by spec.drift.ignore\n", few(m.Left, wide))
		}
		if g := m.BreakGlass; g != nil {
			fmt.Fprintf(&b, "  break-glass %s%s: %s\n", g.State, until(g), oneLine(g.Message))
		}
		for _, p := range m.Problems {
			fmt.Fprintf(&b, "  problem     %s: %s\n", p.Reason, oneLine(p.Message))
		}
	}
	if t.live == nil && len(t.missing) == 0 && !e.elsewhere() {
		b.WriteString("  it does not exist\n")
	}
	for _, note := range e.Notes {
		fmt.Fprintf(&b, "  note        %s\n", note)
	}
	if len(e.Others) > 0 {
		title("Fields of others, which no manifest has or which they share")
		text := &textTable{colour: colour}
		rows := [][]styled{heading("MANAGER", "HOW", "AGE", "FIELDS")}
		for _, o := range e.Others {
			how := o.Operation
			if o.Subresource != "" {
				how += " " + o.Subresource
			}
			rows = append(rows, plain(oneLine(o.Manager), how, ageOf(o.Time.Time, now), few(o.Fields, wide)))
		}
		b.WriteString(text.rows(rows...))
	}
	title("Last edits")
	if len(e.Edits) == 0 {
		b.WriteString("none are known\n")
	}
	text := &textTable{colour: colour}
	var rows [][]styled
	for i, edit := range e.Edits {
		if i == shownEdits && !wide {
			break
		}
		rows = append(rows, []styled{
			{text: ageOf(edit.Last.Time, now) + " ago"}, {text: fmt.Sprintf("%dx", edit.Count)}, {edit.Reason, yellow}, {text: oneLine(edit.Note)},
		})
	}
	b.WriteString(text.rows(rows...))
	if more := len(e.Edits) - len(rows); more > 0 {
		fmt.Fprintf(&b, "... and %d more, with -o wide\n", more)
	}
	e.keep(t, &b, title)
	if len(e.Missing) > 0 {
		title("Not shown")
		for _, missing := range e.Missing {
			fmt.Fprintf(&b, "%s\n", oneLine(missing))
		}
	}
	return b.String()
}

// elsewhere reports whether an owner has the object in another cluster.
func (e *explanation) elsewhere() bool {
	for _, m := range e.ManagedBy {
		if m.Cluster != "" {
			return true
		}
	}
	return false
}

// remarks describe what a VidraResource does about the object.
func (m managedBy) remarks() string {
	var all []string
	if m.Cluster != "" {
		all = append(all, "in the cluster "+oneLine(m.Cluster))
	}
	if m.State != "" {
		all = append(all, "state "+m.State)
	}
	switch {
	case m.Suspended:
		all = append(all, "suspended: edits are not reverted")
	case m.exempt() != nil:
		all = append(all, "no edit is reverted"+until(m.exempt()))
	case m.Drift == string(v1alpha1.DriftCorrect):
		all = append(all, "edits of owned fields are reverted")
	case m.Drift == string(v1alpha1.DriftWarn):
		all = append(all, "edits are reported and not reverted")
	case m.Drift == string(v1alpha1.DriftIgnore):
		all = append(all, "edits are neither reported nor reverted")
	}
	if len(all) == 0 {
		return ""
	}
	return " (" + strings.Join(all, "; ") + ")"
}

// until is the end of an exemption.
func until(g *v1alpha1.BreakGlassStatus) string {
	if g.Until == nil {
		return ""
	}
	return " until " + g.Until.UTC().Format(time.RFC3339)
}

// few are the first of some names.
func few(names []string, wide bool) string {
	more := ""
	if len(names) > shownFields && !wide {
		more = fmt.Sprintf(" and %d more", len(names)-shownFields)
		names = names[:shownFields]
	}
	return oneLine(strings.Join(names, ", ")) + more
}

// keep describes the ways to keep a change.
func (e *explanation) keep(t *target, b *strings.Builder, title func(string)) {
	for i, m := range e.ManagedBy {
		if m.located == nil {
			continue
		}
		name := ""
		if len(e.ManagedBy) > 1 {
			name = " against VidraResource " + m.VidraResource
		}
		title("To keep a change" + name)
		ways := 0
		way := func(format string, args ...any) {
			ways++
			fmt.Fprintf(b, "%d. "+format+"\n", append([]any{ways}, args...)...)
		}
		way("Make it in the manifest, or where the VidraResource comes from:")
		for _, line := range m.Lines {
			field := line.Field
			if field == "" {
				field = "the object: remove it there to keep it deleted"
			}
			fmt.Fprintf(b, "     %s  (%s)\n", line.Place, oneLine(field))
		}
		fmt.Fprintf(b, "     %s\n", m.EditWith)
		if m.Rule != nil {
			m.keepByRule(t.owners[i], b, way)
		}
		if g := m.exempt(); g != nil {
			way("All edits of the object are kept%s. To end that:\n     %s", until(g), hint("skip", t.argument(), "--end"))
		} else {
			way("Keep all edits of the object for a while:\n     %s", hint("skip", t.argument(), `--for 1h --reason "WHY"`))
		}
	}
}

// keepByRule describes the rule that leaves the fields to others.
func (m managedBy) keepByRule(vr *v1alpha1.VidraResource, b *strings.Builder, way func(format string, args ...any)) {
	what, with := "the field", ""
	switch {
	case m.Example:
		with = ", with the path of your field"
	case len(m.Rule.Paths) > 1:
		what, with = "the fields", ", without the paths that you do not mean"
	}
	rules := "this rule"
	if vr.Spec.Drift != nil && len(vr.Spec.Drift.Ignore) > 0 {
		rules = "these rules, of which the last one is new,"
	}
	way("Leave %s to others: paste %s into VidraResource %s%s, and make your change again", what, rules, m.VidraResource, with)
	rule, err := ruleYAML(vr, *m.Rule)
	if err != nil {
		rule = err.Error()
	}
	for line := range strings.Lines(rule) {
		b.WriteString("     " + line)
	}
}

// exempt is the exemption by break-glass that is in force; nil if none is.
func (m managedBy) exempt() *v1alpha1.BreakGlassStatus {
	if m.BreakGlass != nil && m.BreakGlass.State == v1alpha1.BreakGlassAccepted {
		return m.BreakGlass
	}
	return nil
}
