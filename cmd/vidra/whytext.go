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
		b.WriteString("1. Make it in the manifest, or where the VidraResource comes from:\n")
		for _, line := range m.Lines {
			fmt.Fprintf(b, "     %s  (%s)\n", line.Place, oneLine(line.Field))
		}
		fmt.Fprintf(b, "     %s\n", m.EditWith)
		if m.Rule != nil {
			example := ""
			if m.Example {
				example = ", with the path of your field"
			}
			fmt.Fprintf(b, "2. Leave the field to others: paste this rule into VidraResource %s%s\n", m.VidraResource, example)
			rule, err := ruleYAML(t.owners[i], *m.Rule)
			if err != nil {
				rule = err.Error()
			}
			for line := range strings.Lines(rule) {
				b.WriteString("     " + line)
			}
		}
		fmt.Fprintf(b, "3. Keep all edits of the object for a while:\n     vidra skip %s --for 1h --reason \"...\"\n", t.argument())
	}
}
