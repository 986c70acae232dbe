package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/vidra-operator/vidra/cmd/internal/version"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  vidra version",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version.Line("vidra"))
			return err
		},
	}
}
