package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

const statusHelp = `Report whether everything is in order: of one VidraResource, or of all.

A VidraResource is in order if its present spec is applied (Ready), its objects are
healthy, and no change of an object waits to be reverted. A suspended one is not.
Exit code 0 means that all are in order, 1 that one is not or that the command failed.`

const statusExample = `  vidra status           # is everything in order?
  vidra status shop      # what is wrong with shop?`

// statusFlags holds the flags of the command.
type statusFlags struct {
	*kube
	selector string
	output   string
}

func newStatus(k *kube) *cobra.Command {
	f := &statusFlags{kube: k}
	cmd := &cobra.Command{
		Use: "status [NAME]", Short: "Report whether VidraResources are in order, and what is wrong",
		Long: statusHelp, Example: statusExample,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: k.completeName,
		RunE: func(cmd *cobra.Command, names []string) error {
			return f.run(cmd.Context(), names, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVarP(&f.selector, "selector", "l", "", "only VidraResources with these labels, such as team=web")
	addOutput(cmd, &f.output, outputJSON, outputYAML, outputName)
	return cmd
}

func (f *statusFlags) run(ctx context.Context, names []string, out io.Writer) error {
	client, err := f.dynamic()
	if err != nil {
		return err
	}
	reports, err := f.read(ctx, client, names)
	if err != nil {
		return err
	}
	disorder := 0
	for _, r := range reports {
		if !r.InOrder {
			disorder++
		}
	}
	text := &textTable{colour: coloured(out)}
	switch {
	case f.output == outputJSON || f.output == outputYAML:
		err = printDocument(out, f.output, map[string]any{"inOrder": disorder == 0, "vidraResources": reports})
	case f.output == outputName:
		for _, r := range reports {
			if !r.InOrder && err == nil {
				err = printText(out, "vidraresource."+v1alpha1.GroupVersion.Group+"/"+r.Name+"\n")
			}
		}
	case len(names) == 1:
		err = printText(out, reports[0].text(text, time.Now()))
	default:
		err = printText(out, summary(text, reports, disorder))
	}
	if err == nil && disorder > 0 {
		return &exitError{code: exitFailed}
	}
	return err
}

func (f *statusFlags) read(ctx context.Context, client dynamic.Interface, names []string) ([]report, error) {
	if len(names) == 1 {
		if f.selector != "" {
			return nil, errors.New("--selector and a name exclude each other")
		}
		vr, err := getVidraResource(ctx, client, names[0])
		if err != nil {
			return nil, err
		}
		return []report{reportOf(vr)}, nil
	}
	all, err := listVidraResources(ctx, client, f.selector)
	reports := make([]report, 0, len(all))
	for _, vr := range all {
		reports = append(reports, reportOf(vr))
	}
	return reports, err
}

// report is what `vidra status` reports about a VidraResource.
type report struct {
	Name string `json:"name"`
	// InOrder reports that nothing is wrong; Why is what is.
	InOrder bool     `json:"inOrder"`
	Why     []string `json:"why,omitempty"`
	// Ready is the reason of the condition Ready.
	Ready      string                `json:"ready"`
	Objects    map[string]int        `json:"objects"`
	Conditions []metav1.Condition    `json:"conditions"`
	Problems   []v1alpha1.Problem    `json:"problems,omitempty"`
	Drift      *v1alpha1.DriftStatus `json:"drift,omitempty"`

	vr *v1alpha1.VidraResource
}

// reportOf reports about a VidraResource.
func reportOf(vr *v1alpha1.VidraResource) report {
	r := report{
		Name: vr.Name, Ready: "Unknown", Objects: map[string]int{}, Conditions: vr.Status.Conditions,
		Problems: vr.Status.Problems, Drift: vr.Status.Drift, vr: vr,
	}
	for _, e := range vr.Status.ManagedResources {
		r.Objects[string(e.State)]++
	}
	wrong := func(kind, reason, message string) {
		r.Why = append(r.Why, strings.TrimSuffix(fmt.Sprintf("%s: %s: %s", kind, reason, message), ": "))
	}
	ready := meta.FindStatusCondition(vr.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case ready == nil:
		wrong("no status", "Unreconciled", "no operator has reconciled it: check that Vidra runs"+installationOf(vr))
	case vr.Status.ObservedGeneration != vr.Generation && !vr.Spec.Suspend:
		r.Ready = ready.Reason
		wrong("not Ready", "Outdated", "the operator has not applied the present spec yet")
	case ready.Status != metav1.ConditionTrue:
		r.Ready = ready.Reason
		wrong("not Ready", ready.Reason, ready.Message)
	default:
		r.Ready = ready.Reason
	}
	if c := meta.FindStatusCondition(vr.Status.Conditions, v1alpha1.ConditionHealthy); c != nil && c.Status == metav1.ConditionFalse {
		wrong("not healthy", c.Reason, c.Message)
	}
	if c := meta.FindStatusCondition(vr.Status.Conditions, v1alpha1.ConditionDrifted); c != nil && c.Status == metav1.ConditionTrue {
		wrong("drifted", c.Reason, c.Message)
	}
	for _, kind := range []string{v1alpha1.ConditionWatching, v1alpha1.ConditionSuspended} {
		c := meta.FindStatusCondition(vr.Status.Conditions, kind)
		switch {
		case c == nil || c.Reason == v1alpha1.ReasonEventsOff:
		case kind == v1alpha1.ConditionWatching && c.Status != metav1.ConditionTrue:
			wrong("not watched", c.Reason, c.Message)
		case kind == v1alpha1.ConditionSuspended && c.Status == metav1.ConditionTrue:
			wrong("suspended", "nothing is applied or reverted", "`vidra resume "+vr.Name+"` ends that")
		}
	}
	if !vr.DeletionTimestamp.IsZero() {
		wrong("being deleted", "it waits for the removal of its objects", "")
	}
	r.Why = withoutRepeats(r.Why)
	r.InOrder = len(r.Why) == 0
	return r
}

// withoutRepeats leaves out what says the same of another condition: the text after its first colon.
func withoutRepeats(all []string) []string {
	var seen, kept []string
	for _, text := range all {
		_, what, _ := strings.Cut(text, ": ")
		if !slices.Contains(seen, what) {
			seen, kept = append(seen, what), append(kept, text)
		}
	}
	return kept
}

// installationOf names the installation that is to reconcile a VidraResource, if it is not the default one.
func installationOf(vr *v1alpha1.VidraResource) string {
	if installation := v1alpha1.InstallationOf(vr); installation != "" {
		return " with --installation=" + string(installation)
	}
	return ""
}

// summary is about all VidraResources.
func summary(text *textTable, reports []report, disorder int) string {
	if len(reports) == 0 {
		return "There are no VidraResources.\n"
	}
	if disorder == 0 {
		return styled{fmt.Sprintf("In order: %s.\n", plural(len(reports), "VidraResource")), green}.paint(text.colour)
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
		"\n`vidra status NAME` has more.\n"
}

// text is about one VidraResource.
func (r report) text(text *textTable, now time.Time) string {
	var b strings.Builder
	verdict := styled{"in order", green}
	if !r.InOrder {
		verdict = styled{"not in order", red}
	}
	fmt.Fprintf(&b, "VidraResource %s: %s\n", r.Name, verdict.paint(text.colour))
	for _, why := range r.Why {
		fmt.Fprintf(&b, "  %s\n", oneLine(why))
	}
	b.WriteString("\n")
	spec := r.vr.Spec
	rows := [][]styled{plain("Destination:", destinationOf(r.vr)), plain("Drift:", driftOf(r.vr, now)), plain("Objects:", objectCounts(r.Objects))}
	if spec.ServiceAccountName != "" {
		rows = append(rows, plain("Account:", spec.Destination.Namespace+"/"+spec.ServiceAccountName))
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
			fmt.Fprintf(&b, "... and %d more\n", r.vr.Status.UnlistedProblems)
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

// remote reports whether the objects of a VidraResource are in another cluster.
func remote(vr *v1alpha1.VidraResource) bool { return !access.IsLocal(vr.Spec.Destination.Server) }

// driftOf describes what is done about drift, and what was done last.
func driftOf(vr *v1alpha1.VidraResource, now time.Time) string {
	text := string(vr.DriftMode())
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
		v1alpha1.ObjectApplied, v1alpha1.ObjectPending, v1alpha1.ObjectDrifted, v1alpha1.ObjectContended, v1alpha1.ObjectFailed, v1alpha1.ObjectDeleting,
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
