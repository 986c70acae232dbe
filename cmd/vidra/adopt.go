package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vidra-operator/vidra/pkg/insight/render"
)

const adoptHelp = `Adopt the objects of a VidraResource that exist already and that it was refused: Vidra
changes them to what the manifest says, and manages them. ` + "`vidra diff NAME`" + ` shows the
changes before. The command sets spec.adopt to Always until the operator is done, and then
to what it was.

Exit code 0 means that nothing is refused any more, 1 that an object still is, that the
time is over or that the command failed.`

const orphanHelp = `Have objects stay in place, unmanaged, when Vidra would delete them.

  orphan NAME        all objects, when the VidraResource is deleted: sets
                     spec.deletionPolicy to Orphan
  orphan KIND/NAME   one object, when it leaves the manifest and when the VidraResource
                     is deleted: sets the annotation
                     vidraresource.infrahub.operators.com/keep`

const orphanExample = `  vidra orphan shop && kubectl delete vidraresource shop
  vidra orphan pvc/data -n shop`

func newAdopt(k *kube) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "adopt NAME", Short: "Adopt the objects that a VidraResource was refused",
		Long: adoptHelp, Example: "  vidra adopt shop",
		Args: wants(cobra.ExactArgs(1), formName), ValidArgsFunction: k.completeName,
		RunE: func(cmd *cobra.Command, names []string) error {
			client, err := k.writes()
			if err != nil {
				return err
			}
			adopted, err := client.Adopt(cmd.Context(), names[0], timeout)
			switch {
			case err != nil:
				return err
			case len(adopted) == 0:
				return printText(cmd.OutOrStdout(), render.Sprintf("VidraResource %s was refused no object\n", names[0]))
			}
			return printText(cmd.OutOrStdout(), render.Sprintf("VidraResource %s adopted %s\n", names[0], strings.Join(adopted, ", ")))
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", defaultTimeout, "how long to wait for the operator at most")
	return cmd
}

func newOrphan(k *kube) *cobra.Command {
	return &cobra.Command{
		Use: "orphan NAME | KIND/NAME", Short: "Have objects stay in place when Vidra would delete them",
		Long: orphanHelp, Example: orphanExample,
		Args: wants(cobra.RangeArgs(1, 2), formName, formObject), ValidArgsFunction: k.completeNameOrObject,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := k.writes()
			if err != nil {
				return err
			}
			if len(args) == 2 || strings.Contains(args[0], "/") {
				target, err := k.target(args)
				if err != nil {
					return err
				}
				id, err := client.Keep(cmd.Context(), target)
				if err != nil {
					return err
				}
				return printText(cmd.OutOrStdout(), render.Sprintf("%s stays when it leaves the manifest, and when its VidraResource is deleted\n", id))
			}
			if err := client.Orphan(cmd.Context(), args[0]); err != nil {
				return err
			}
			return printText(cmd.OutOrStdout(), render.Sprintf("VidraResource %s: its objects stay when it is deleted\n", args[0]))
		},
	}
}
