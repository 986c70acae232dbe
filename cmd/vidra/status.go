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
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
)

const statusHelp = `Report whether everything is in order: of one VidraResource, or of all.

VidraResources have no namespace. With --namespace, those are reported that have an
object in it.

A VidraResource is in order if its present spec is applied (Ready), its objects are
healthy, and no change of an object waits to be reverted. A suspended one is not.
Exit code 0 means that all are in order, 1 that one is not or that the command failed.`

const statusExample = `  vidra status           # is everything in order?
  vidra status shop      # what is wrong with shop?
  vidra status -n shop   # of those with an object in the namespace shop`

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
		Args: wants(cobra.MaximumNArgs(1), formName), ValidArgsFunction: k.completeName,
		RunE: func(cmd *cobra.Command, names []string) error {
			return f.run(cmd.Context(), names, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVarP(&f.selector, "selector", "l", "", "only VidraResources with these labels, such as team=web")
	cmd.Flags().BoolP("all-namespaces", "A", false, "VidraResources with objects in any namespace, which is the default")
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
				err = printText(out, "vidraresource."+v1alpha1.GroupVersion.Group+"/"+oneLine(r.Name)+"\n")
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
	namespace := *f.Namespace
	if err := validateNamespace(namespace); err != nil {
		return nil, err
	}
	if len(names) == 1 {
		if f.selector != "" {
			return nil, errors.New("--selector and a name exclude each other")
		}
		vr, err := getVidraResource(ctx, client, names[0])
		if err != nil {
			return nil, err
		}
		if namespace != "" && !hasObjectIn(vr, namespace) {
			return nil, fmt.Errorf("VidraResource %s has no object in namespace %q", vr.Name, namespace)
		}
		return []report{reportOf(vr)}, nil
	}
	all, err := listVidraResources(ctx, client, f.selector)
	reports := make([]report, 0, len(all))
	for _, vr := range all {
		if namespace == "" || hasObjectIn(vr, namespace) {
			reports = append(reports, reportOf(vr))
		}
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
	Shards     []string              `json:"shards,omitempty"`

	vr *v1alpha1.VidraResource
}

// reportOf reports about a VidraResource.
func reportOf(vr *v1alpha1.VidraResource) report {
	r := report{
		Name: vr.Name, Ready: "Unknown", Objects: map[string]int{}, Conditions: vr.Status.Conditions,
		Problems: vr.Status.Problems, Drift: vr.Status.Drift, Shards: vr.Status.Shards, vr: vr,
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
			wrong("suspended", "nothing is applied or reverted", "`"+hint("resume", vr.Name)+"` ends that")
		}
	}
	if len(vr.Status.Shards) > 0 && len(v1alpha1.ShardsOf(vr, "")) == 0 {
		wrong("no shard", "Unreconciled", fmt.Sprintf("its labels do not match %s, and no other operator has taken it over since they changed: "+
			"check that an operator runs whose --watch-label-selector matches them", strings.Join(vr.Status.Shards, " or ")))
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

// remote reports whether the objects of a VidraResource are in another cluster.
func remote(vr *v1alpha1.VidraResource) bool { return !access.IsLocal(vr.Spec.Destination.Server) }
