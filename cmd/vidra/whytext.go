package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// shownFields is how many fields are listed without -o wide, and shownEdits how many edits.
const (
	shownFields = 5
	shownEdits  = 5
)

// text is the explanation for users.
func (e *explanation) text(t *target, colour, wide bool, now time.Time) string {
	var b strings.Builder
	title := func(text string) { fprintf(&b, "\n%s\n", styled{text, bold}.paint(colour)) }
	b.WriteString(styled{t.id.String(), bold}.paint(colour) + "\n")
	for _, m := range e.ManagedBy {
		fprintf(&b, "  managed by  VidraResource %s%s\n", m.VidraResource, m.remarks())
		if m.DefinedIn != "" {
			fprintf(&b, "  defined in  %s\n", m.DefinedIn)
		}
		if g := m.BreakGlass; g != nil {
			fprintf(&b, "  break-glass %s%s: %s\n", g.State, until(g), oneLine(g.Message))
		}
		for _, p := range m.Problems {
			fprintf(&b, "  problem     %s: %s\n", p.Reason, oneLine(p.Message))
		}
	}
	if t.live == nil && len(t.missing) == 0 && !e.elsewhere() {
		b.WriteString("  it does not exist\n")
	}
	for _, note := range e.Notes {
		fprintf(&b, "  note        %s\n", note)
	}
	title("Last edits")
	e.lastEdits(t, &b, colour, wide, now)
	e.keep(t, &b, title)
	e.fields(t, &b, title, colour, wide, now)
	if len(e.Missing) > 0 {
		title("Not shown")
		for _, missing := range e.Missing {
			fprintf(&b, "%s\n", oneLine(missing))
		}
	}
	return b.String()
}

// lastEdits prints the last edits, and who may know the user of an edit.
func (e *explanation) lastEdits(t *target, b *strings.Builder, colour, wide bool, now time.Time) {
	if len(e.Edits) == 0 {
		b.WriteString("none are known\n")
		return
	}
	shown := e.Edits
	if !wide {
		shown = shown[:min(len(shown), shownEdits)]
	}
	repeated := slices.ContainsFunc(shown, func(edit edit) bool { return edit.Count > 1 })
	text := &textTable{colour: colour}
	var rows [][]styled
	for _, edit := range shown {
		row := plain(ageOf(edit.Last.Time, now) + " ago")
		if repeated {
			row = append(row, styled{text: plural(int(edit.Count), "time")})
		}
		if wide {
			row = append(row, styled{edit.Reason, yellow})
		}
		rows = append(rows, append(row, styled{text: oneLine(edit.Note)}))
	}
	b.WriteString(text.rows(rows...))
	if more := len(e.Edits) - len(shown); more > 0 {
		fprintf(b, "... and %d more, with -o wide\n", more)
	}
	if i := slices.IndexFunc(shown, func(edit edit) bool { return edit.user == "" }); i >= 0 {
		fprintf(b, "A name in quotes is a program (the field manager): Kubernetes does not store the user of an edit in the object.\n"+
			"The policy stamp has Vidra name the user (docs/policies.md). The audit log of the API server has the user: %s, %s.\n",
			t.id, shown[i].Last.UTC().Format(time.RFC3339))
	}
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
	case m.Drift != "":
		all = append(all, driftTexts[v1alpha1.DriftMode(m.Drift)])
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
		more = fmt.Sprintf(" and %d more (-o wide lists all)", len(names)-shownFields)
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
			fprintf(b, "%d. "+format+"\n", append([]any{ways}, args...)...)
		}
		way("Make it in the manifest, or where the VidraResource comes from (lines count from the start of %s):", m.start)
		for _, line := range m.Lines {
			field := line.Field
			if field == "" {
				field = "the object: remove it there to keep it deleted"
			}
			fprintf(b, "     %s  (%s)\n", line.Place, oneLine(field))
		}
		fprintf(b, "     %s\n", m.EditWith)
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
	b.WriteString(safeLines("     ", rule))
}

// exempt is the exemption by break-glass that is in force; nil if none is.
func (m managedBy) exempt() *v1alpha1.BreakGlassStatus {
	if m.BreakGlass != nil && m.BreakGlass.State == v1alpha1.BreakGlassAccepted {
		return m.BreakGlass
	}
	return nil
}
