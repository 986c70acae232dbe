package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// summary is about all VidraResources.
func summary(text *textTable, reports []report, disorder int) string {
	if len(reports) == 0 {
		return "No VidraResources found.\n"
	}
	if disorder == 0 {
		return styled{fmt.Sprintf("In order: %s.", plural(len(reports), "VidraResource")), green}.paint(text.colour) + "\n"
	}
	var rows [][]styled
	for _, r := range reports {
		for i, why := range r.Why {
			name := r.Name
			if i > 0 {
				name = ""
			}
			rows = append(rows, []styled{{text: name}, {oneLine(why), red}})
		}
	}
	return fmt.Sprintf("Not in order: %d of %s.\n\n", disorder, plural(len(reports), "VidraResource")) +
		text.rows(append([][]styled{heading("NAME", "WHAT IS WRONG")}, rows...)...) +
		"\n`" + hint("status", "NAME") + "` has more.\n"
}

// text is about one VidraResource.
func (r report) text(text *textTable, now time.Time) string {
	var b strings.Builder
	verdict := styled{"in order", green}
	if !r.InOrder {
		verdict = styled{"not in order", red}
	}
	fprintf(&b, "VidraResource %s: %s\n", r.Name, verdict.paint(text.colour))
	for _, why := range r.Why {
		fprintf(&b, "  %s\n", oneLine(why))
	}
	b.WriteString("\n")
	spec := r.vr.Spec
	rows := [][]styled{plain("Destination:", destinationOf(r.vr)), plain("Drift mode:", driftOf(r.vr, now)), plain("Objects:", objectCounts(r.Objects))}
	if spec.ServiceAccountName != "" {
		rows = append(rows, plain("Account:", spec.Destination.Namespace+"/"+spec.ServiceAccountName))
	}
	if shards := r.vr.Status.Shards; len(shards) > 0 {
		rows = append(rows, plain("Shard:", oneLine(strings.Join(shards, " and "))))
	}
	b.WriteString(text.rows(rows...) + "\n")

	table := &textTable{colour: text.colour}
	rows = [][]styled{heading("CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE")}
	for _, c := range r.Conditions {
		rows = append(rows, plain(c.Type, string(c.Status), c.Reason, ageOf(c.LastTransitionTime.Time, now), oneLine(c.Message)))
	}
	b.WriteString(table.rows(rows...))
	if len(r.Problems) > 0 {
		table := &textTable{colour: text.colour}
		rows = [][]styled{heading("PROBLEM", "OBJECT", "SINCE", "MESSAGE")}
		for _, p := range r.Problems {
			rows = append(rows, []styled{{p.Reason, red}, {text: problemObject(p.Object)}, {text: ageOf(p.Since.Time, now)}, {text: oneLine(p.Message)}})
		}
		b.WriteString("\n" + table.rows(rows...))
		if r.vr.Status.UnlistedProblems > 0 {
			fprintf(&b, "... and %d more\n", r.vr.Status.UnlistedProblems)
		}
	}
	return b.String()
}

// destinationOf describes where the objects of a VidraResource are.
func destinationOf(vr *v1alpha1.VidraResource) string {
	at := "this cluster"
	if remote(vr) {
		at = oneLine(vr.Spec.Destination.Server)
	}
	if vr.Spec.Destination.Namespace != "" {
		at += ", namespace " + vr.Spec.Destination.Namespace
	}
	return at
}

// driftTexts are what the modes of spec.drift do.
var driftTexts = map[v1alpha1.DriftMode]string{
	v1alpha1.DriftCorrect: "edits of owned fields are reverted",
	v1alpha1.DriftWarn:    "edits are reported and not reverted",
	v1alpha1.DriftIgnore:  "edits are neither reported nor reverted",
}

// driftOf describes what is done about drift, and what was done last.
func driftOf(vr *v1alpha1.VidraResource, now time.Time) string {
	text := string(vr.DriftMode()) + " (" + driftTexts[vr.DriftMode()] + ")"
	drift := vr.Status.Drift
	if drift == nil || drift.Heals == 0 {
		return text + ", nothing was reverted yet"
	}
	text += ", " + plural(int(drift.Heals), "revert")
	if last := drift.LastHeal; last != nil && drift.LastHealTime != nil {
		text += fmt.Sprintf("; the last one %s ago: %s", ageOf(drift.LastHealTime.Time, now), oneLine(last.Object))
		if fields := slices.Concat(last.Fields, last.Added); len(fields) > 0 {
			text += " " + oneLine(strings.Join(fields, ", "))
		}
		if last.Manager != "" {
			text += fmt.Sprintf(", by %q", last.Manager)
		}
	}
	return text
}

// objectCounts are the objects by their states.
func objectCounts(counts map[string]int) string {
	total := 0
	var parts []string
	for _, state := range []v1alpha1.ObjectState{
		v1alpha1.ObjectApplied, v1alpha1.ObjectCompleted, v1alpha1.ObjectPending, v1alpha1.ObjectDrifted, v1alpha1.ObjectContended, v1alpha1.ObjectFailed, v1alpha1.ObjectDeleting,
	} {
		if n := counts[string(state)]; n > 0 {
			total += n
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	if total == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// problemObject names the object of a problem.
func problemObject(o *v1alpha1.ProblemObject) string {
	switch {
	case o == nil:
		return ""
	case o.Resource != "":
		return "all " + o.Resource
	}
	return object.Identity{GroupKind: schema.GroupKind{Kind: o.Kind}, Namespace: o.Namespace, Name: o.Name}.String()
}
