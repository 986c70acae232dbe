package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/vidra-operator/vidra/pkg/insight/render"
	"github.com/vidra-operator/vidra/pkg/writes"
)

const revisionsHelp = `List the revisions of the manifest of a VidraResource: the applied one, the former ones
that are kept, and the one that waits while spec.revision.hold is true, with its user.

A revision is the content of the manifest. The same content is the same revision, also
if its source has another commit. ` + "`vidra rollback NAME`" + ` applies a former one.`

const rollbackHelp = `Apply a former revision of the manifest of a VidraResource, and hold it: the manifest of
the spec, and each new one, waits. Objects that the former revision lacks are removed,
with all rules of removals. ` + "`vidra revisions NAME`" + ` lists the revisions.

` + "`vidra rollback NAME --release`" + ` ends this, and each other hold: the manifest of the spec
is applied. ` + "`vidra diff NAME`" + ` shows its changes before.`

const rollbackExample = `  vidra rollback shop             # to the revision before
  vidra rollback shop --to 3
  vidra rollback shop --release   # apply the manifest of the spec again`

func newRevisions(k *kube) *cobra.Command {
	output := ""
	cmd := &cobra.Command{
		Use: "revisions NAME", Short: "List the applied revisions of the manifest of a VidraResource",
		Long: revisionsHelp, Example: "  vidra revisions shop\n  vidra revisions shop -o json",
		Args: wants(cobra.ExactArgs(1), formName), ValidArgsFunction: k.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := k.insight()
			if err != nil {
				return err
			}
			all, err := client.Revisions(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if output == "" && len(all.Kept) == 0 {
				printMessage(cmd.ErrOrStderr(), "no applied revision is kept")
			}
			return printAnswer(out, output, all, styleOf(out, "").Revisions(all))
		},
	}
	addOutput(cmd, &output, outputJSON, outputYAML)
	return cmd
}

// rollbackFlags holds the flags of the command.
type rollbackFlags struct {
	kube    *kube
	to      int64
	release bool
	output  string
}

func newRollback(k *kube) *cobra.Command {
	f := &rollbackFlags{kube: k}
	cmd := &cobra.Command{
		Use: "rollback NAME", Short: "Apply a former revision of the manifest of a VidraResource, and hold it",
		Long: rollbackHelp, Example: rollbackExample,
		Args: wants(cobra.ExactArgs(1), formName), ValidArgsFunction: k.completeName,
		RunE: f.run,
	}
	cmd.Flags().Int64Var(&f.to, "to", 0, "number of the revision (default: the one before; the applied one while a newer manifest is applied in part)")
	cmd.Flags().BoolVar(&f.release, "release", false, "end the hold, and apply the manifest of the spec")
	cmd.MarkFlagsMutuallyExclusive("to", "release")
	_ = cmd.RegisterFlagCompletionFunc("to", f.completeRevisions) // the flag exists
	addOutput(cmd, &f.output, outputJSON, outputYAML)
	return cmd
}

// completeRevisions completes the numbers of the revisions of the VidraResource in the arguments.
func (f *rollbackFlags) completeRevisions(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	client, err := f.kube.insight()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	all, err := client.Revisions(cmd.Context(), args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var numbers []string
	for _, k := range all.Kept {
		numbers = append(numbers, render.Sprintf("%s\t%s", fmt.Sprint(k.Number), k.Source)) // without control characters of the source
	}
	return numbers, cobra.ShellCompDirectiveNoFileComp
}

func (f *rollbackFlags) run(cmd *cobra.Command, args []string) error {
	ctx, name, out := cmd.Context(), args[0], cmd.OutOrStdout()
	if cmd.Flags().Changed("to") && f.to < 1 {
		return fmt.Errorf("--to %d: name a revision from 1 on, as `%s` lists them", f.to, program.Hint("revisions", name))
	}
	client, err := f.kube.writes()
	if err != nil {
		return err
	}
	var done *writes.Rollback
	if f.release {
		done, err = client.Release(ctx, name)
	} else {
		done, err = client.Rollback(ctx, name, f.to)
	}
	if err != nil {
		return err
	}
	if f.output != "" {
		return printDocument(out, f.output, done)
	}
	switch {
	case f.release && done.Unchanged:
		return printText(out, render.Sprintf("VidraResource %s held no revision before\n", name))
	case f.release:
		return printText(out, render.Sprintf("VidraResource %s released: its manifest is applied\n", name))
	case done.Unchanged:
		return printText(out, render.Sprintf("VidraResource %s was rolled back to revision %s before\n", name, fmt.Sprint(done.To)))
	}
	return printText(out, render.Sprintf("VidraResource %s rolled back to revision %s, which is held: `%s` applies the manifest of the spec again\n", name, fmt.Sprint(done.To), program.Hint("rollback", name, "--release")))
}
