package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight/render"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

const drillHelp = `Edit an object of a VidraResource and report how fast the edit was detected and
reverted, and to whom the operator attributed it.

The edit changes the value of one annotation that starts nothing: the annotation
` + v1alpha1.DrillAnnotation + `, or else kubernetes.io/description,
of the first object whose manifest sets it. Without one, nothing is edited.
If Vidra does not revert the edit within --within, the command does, and restores
the field ownership. It edits nothing that Vidra would not revert, such as an object
of a suspended VidraResource. For objects in another cluster, the kubeconfig in the
Secret of that cluster is used, if you may read it.

Exit code 0 means that the edit was reverted and attributed, 1 that it was not
reverted in time, and 2 that the command failed, or that nothing was edited.`

const drillExample = `  vidra drill shop
  vidra drill shop --within 250ms`

func newDrill(k *kube) *cobra.Command {
	var within time.Duration
	var kubeconfigs string
	cmd := &cobra.Command{
		Use: "drill NAME", Short: "Edit a sentinel of a VidraResource, and report how Vidra reverts that",
		Long: drillHelp, Example: drillExample,
		Args: wants(cobra.ExactArgs(1), formName), ValidArgsFunction: k.completeName,
		RunE: func(cmd *cobra.Command, names []string) error {
			return measured(k.drill(cmd.Context(), names[0], kubeconfigs, within, cmd.OutOrStdout()))
		},
	}
	const patience = 10 * time.Second
	addKubeconfigNamespace(cmd, &kubeconfigs)
	cmd.Flags().DurationVar(&within, "within", patience, "for how long the edit may stand at most")
	return cmd
}

// drill makes a drill and prints its course.
func (k *kube) drill(ctx context.Context, name, kubeconfigs string, within time.Duration, out io.Writer) error {
	client, err := k.insight()
	if err != nil {
		return err
	}
	if _, err := client.VidraResource(ctx, name); err != nil { // an error of it says what to do
		return err
	}
	cluster, err := k.cluster(kubeconfigs)
	if err != nil {
		return err
	}
	report, err := cluster.Drill(ctx, name, within)
	if err != nil {
		return err
	}
	rows := [][]string{
		{"Edited:", fmt.Sprintf("annotation %s of %s", report.Annotation, object.Identity(report.Heal.Object))},
		{"Seen:", fmt.Sprintf("after %s, by a watch", short(report.Heal.Seen))},
		{"Reverted:", fmt.Sprintf("%s after that", short(report.Heal.Stood))},
	}
	if e := report.Entry; e != nil {
		rows = append(rows, []string{"Attributed:", fmt.Sprintf("%s to %s, in status.history after %s", e.Reason, writerOf(e.User, e.Manager), short(report.Reported))})
	}
	if err := printText(out, render.Table(rows...)); err != nil || report.Entry != nil {
		return err
	}
	return fmt.Errorf("VidraResource %s: the edit was reverted, and status.history does not have it: check the operator with `%s`", name, program.Hint("status", name))
}

// writerOf names who made an edit.
func writerOf(user, manager string) string {
	if user == "" {
		return fmt.Sprintf("%q", manager)
	}
	return fmt.Sprintf("%s (%s)", user, manager)
}
