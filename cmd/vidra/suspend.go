package main

import (
	"github.com/spf13/cobra"

	"github.com/vidra-operator/vidra/pkg/insight/render"
)

const suspendHelp = `Make Vidra write no object of VidraResources: a changed manifest is not applied, and
edits are reported and not reverted. ` + "`vidra resume`" + ` ends it.`

const resumeHelp = `End the suspension of VidraResources. What waited is applied, and edits that were made
meanwhile are reverted: ` + "`vidra diff NAME`" + ` shows them before.`

func newSuspend(k *kube) *cobra.Command {
	return newSwitch(k, true, &cobra.Command{
		Use: "suspend NAME...", Short: "Make Vidra write no object of VidraResources",
		Long: suspendHelp, Example: "  vidra suspend shop",
	})
}

func newResume(k *kube) *cobra.Command {
	return newSwitch(k, false, &cobra.Command{
		Use: "resume NAME...", Short: "End the suspension of VidraResources",
		Long: resumeHelp, Example: "  vidra resume shop",
	})
}

// newSwitch makes the command that sets spec.suspend.
func newSwitch(k *kube, suspend bool, cmd *cobra.Command) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = wants(cobra.MinimumNArgs(1), formName), k.completeNames
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		client, err := k.writes()
		if err != nil {
			return err
		}
		done := map[bool]string{true: "suspended", false: "resumed"}[suspend]
		for _, name := range names {
			changed, err := client.Suspend(cmd.Context(), name, suspend)
			if err != nil {
				return err
			}
			text := "VidraResource %s %s\n"
			if !changed {
				text = "VidraResource %s was %s before\n"
			}
			if err := printText(cmd.OutOrStdout(), render.Sprintf(text, name, done)); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}
