package main

import "github.com/spf13/cobra"

const blameHelp = `Show a live object as YAML, and beside each line its owner: the document and line of the
manifest, or the field manager and the time of its last write. Lines without an owner
are defaults of the API server. An edit that was reverted is beside the first line of
the field.

--foreign shows only what the manifest does not have. Values of Secrets and of
environment variables are masked.`

const blameExample = `  vidra blame deployment/web -n shop
  vidra blame deployment/web -n shop --foreign   # what did others add?`

// blameFlags holds the flags of the command.
type blameFlags struct {
	kube     *kube
	foreign  bool
	output   string
	operator operatorFlags
}

func newBlame(k *kube) *cobra.Command {
	f := &blameFlags{kube: k}
	cmd := &cobra.Command{
		Use: "blame KIND/NAME", Short: "Show a live object with the owner of each line",
		Long: blameHelp, Example: blameExample,
		Args: wants(countObject, formObject), ValidArgsFunction: k.completeObject,
		RunE: f.run,
	}
	cmd.Flags().BoolVar(&f.foreign, "foreign", false, "only what the manifest does not have")
	f.operator.addConfig(cmd)
	addOutput(cmd, &f.output, outputJSON, outputYAML)
	return cmd
}

func (f *blameFlags) run(cmd *cobra.Command, args []string) error {
	target, err := f.kube.target(args)
	if err != nil {
		return err
	}
	client, err := f.operator.client(f.kube)
	if err != nil {
		return err
	}
	blame, err := client.Blame(cmd.Context(), target, f.foreign)
	if err != nil {
		return err
	}
	printMessages(cmd.ErrOrStderr(), blame.Remarks)
	out := cmd.OutOrStdout()
	return printAnswer(out, f.output, blame, styleOf(out, f.output).Blame(blame))
}
