package render

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/internal/display"
)

// Status returns the text about several VidraResources.
func (s Style) Status(status *insight.Status) string {
	reports := status.VidraResources
	if len(reports) == 0 {
		return "No VidraResources found.\n"
	}
	disorder := 0
	for _, r := range reports {
		if !r.InOrder {
			disorder++
		}
	}
	if disorder == 0 {
		return styled{fmt.Sprintf("In order: %s.", display.Plural(len(reports), "VidraResource")), green}.paint(s.Colour) + "\n"
	}
	rows := [][]styled{heading("NAME", "WHAT IS WRONG")}
	for _, r := range reports {
		for i, why := range r.Why {
			name := r.Name
			if i > 0 {
				name = ""
			}
			rows = append(rows, []styled{{text: name}, {Line(why), red}})
		}
	}
	return fmt.Sprintf("Not in order: %d of %s.\n\n", disorder, display.Plural(len(reports), "VidraResource")) +
		s.table().rows(rows...) +
		"\n`" + s.Program.Hint("status", "NAME") + "` has more.\n"
}

// Report returns the text about one VidraResource.
func (s Style) Report(r insight.Report) string {
	now := s.Now
	var b strings.Builder
	verdict := styled{"in order", green}
	if !r.InOrder {
		verdict = styled{"not in order", red}
	}
	fprintf(&b, "VidraResource %s: %s\n", r.Name, verdict.paint(s.Colour))
	for _, why := range r.Why {
		fprintf(&b, "  %s\n", Line(why))
	}
	b.WriteString("\n")
	spec := r.VidraResource.Spec
	rows := [][]styled{plain("Destination:", destinationOf(r.VidraResource)), plain("Drift mode:", driftOf(r.VidraResource, now)), plain("Objects:", ObjectCounts(r.Objects))}
	if spec.ServiceAccountName != "" {
		rows = append(rows, plain("Account:", spec.Destination.Namespace+"/"+spec.ServiceAccountName))
	}
	for _, from := range r.Source {
		rows = append(rows, plain("Source:", Line(from.String())))
	}
	if shards := r.VidraResource.Status.Shards; len(shards) > 0 {
		rows = append(rows, plain("Shard:", Line(strings.Join(shards, " and "))))
	}
	b.WriteString(s.table().rows(rows...) + "\n")

	rows = [][]styled{heading("CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE")}
	for _, c := range r.Conditions {
		rows = append(rows, plain(c.Type, string(c.Status), c.Reason, ageOf(c.LastTransitionTime.Time, now), Line(c.Message)))
	}
	b.WriteString(s.table().rows(rows...))
	if len(r.Problems) > 0 {
		rows = [][]styled{heading("PROBLEM", "OBJECT", "SINCE", "MESSAGE")}
		for _, p := range r.Problems {
			rows = append(rows, []styled{{p.Reason, red}, {text: insight.ProblemObject(p.Object)}, {text: ageOf(p.Since.Time, now)}, {text: Line(p.Message)}})
		}
		b.WriteString("\n" + s.table().rows(rows...))
		if r.VidraResource.Status.UnlistedProblems > 0 {
			fprintf(&b, "... and %d more\n", r.VidraResource.Status.UnlistedProblems)
		}
	}
	return b.String()
}

// destinationOf describes where the objects of a VidraResource are.
func destinationOf(vr *v1alpha1.VidraResource) string {
	at := "this cluster"
	if insight.Remote(vr) {
		at = Line(vr.Spec.Destination.Server)
	}
	if vr.Spec.Destination.Namespace != "" {
		at += ", namespace " + vr.Spec.Destination.Namespace
	}
	return at
}

// driftTexts are the effects of the modes of spec.drift.
var driftTexts = map[v1alpha1.DriftMode]string{
	v1alpha1.DriftCorrect: "edits of owned fields are reverted",
	v1alpha1.DriftWarn:    "edits are reported and not reverted",
	v1alpha1.DriftIgnore:  "edits are neither reported nor reverted",
}

// unknownMode describes a mode of spec.drift of a later version.
const unknownMode = "which this version of vidra does not know"

// ModeText describes the effect of a mode of spec.drift, also of a later version; empty for an empty mode.
func ModeText(mode v1alpha1.DriftMode) string {
	if mode == "" {
		return ""
	}
	return cmp.Or(driftTexts[mode], "spec.drift.mode "+Line(string(mode))+", "+unknownMode)
}

// driftOf describes the handling of drift, and the last revert.
func driftOf(vr *v1alpha1.VidraResource, now time.Time) string {
	text := Line(string(vr.DriftMode())) + " (" + cmp.Or(driftTexts[vr.DriftMode()], unknownMode) + ")"
	drift := vr.Status.Drift
	if drift == nil || drift.Heals == 0 {
		return text + ", nothing was reverted yet"
	}
	text += ", " + display.Plural(int(drift.Heals), "revert")
	if last := drift.LastHeal; last != nil && drift.LastHealTime != nil {
		text += fmt.Sprintf("; the last one %s: %s", ago(drift.LastHealTime.Time, now), Line(last.Object))
		if fields := slices.Concat(last.Fields, last.Added); len(fields) > 0 {
			text += " " + Line(strings.Join(fields, ", "))
		}
		if last.Manager != "" {
			text += fmt.Sprintf(", by %q", last.Manager)
		}
	}
	return text
}

// ObjectCounts returns the objects by their states.
func ObjectCounts(counts map[string]int) string {
	order := []v1alpha1.ObjectState{
		v1alpha1.ObjectApplied, v1alpha1.ObjectCompleted, v1alpha1.ObjectPending, v1alpha1.ObjectDrifted, v1alpha1.ObjectContended, v1alpha1.ObjectFailed, v1alpha1.ObjectDeleting,
	}
	rank := func(state string) uint { return uint(slices.Index(order, v1alpha1.ObjectState(state))) } //nolint:gosec // states of other versions are the last ones
	var parts []string
	for _, state := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) }) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[state], cmp.Or(Line(state), "without a state")))
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}
