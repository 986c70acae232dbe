package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/insight/render"
)

const waitHelp = `Wait until a VidraResource is in a state.

  ready     its present spec is applied, and its objects are watched
  healthy   ready, and all objects are healthy
  settled   the operator has nothing more to do: it is ready, or only a user can help

The command fails at the end of --timeout, with what is in the way.

Exit code 0 means that the VidraResource is in the state, 1 that the time is over or that
the command failed.`

const waitExample = `  vidra wait shop --for ready
  vidra wait shop --for healthy --timeout 5m`

// defaultTimeout is the timeout of kubectl wait.
const defaultTimeout = 30 * time.Second

func newWait(k *kube) *cobra.Command {
	var until string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "wait NAME", Short: "Wait until a VidraResource is ready, healthy or settled",
		Long: waitHelp, Example: waitExample,
		Args: wants(cobra.ExactArgs(1), formName), ValidArgsFunction: k.completeName,
		RunE: func(cmd *cobra.Command, names []string) error {
			state, err := oneOf("for", until, insight.States)
			if err != nil {
				return err
			}
			client, err := k.insight()
			if err != nil {
				return err
			}
			if err := client.Await(cmd.Context(), names[0], state, timeout); err != nil {
				return err
			}
			return printText(cmd.OutOrStdout(), render.Sprintf("VidraResource %s is %s\n", names[0], state))
		},
	}
	cmd.Flags().StringVar(&until, "for", insight.StateReady, "ready, healthy or settled")
	cmd.Flags().DurationVar(&timeout, "timeout", defaultTimeout, "how long to wait at most")
	return cmd
}
