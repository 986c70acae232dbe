package main

import "github.com/spf13/cobra"

// addFilename adds the flags that name files, as kubectl has them.
func addFilename(cmd *cobra.Command, paths *[]string, recursive *bool, usage string) {
	cmd.Flags().StringArrayVarP(paths, "filename", "f", nil, usage)
	cmd.Flags().BoolVarP(recursive, "recursive", "R", false, "also read the folders inside the folders of -f")
}
