package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vidra-operator/vidra/e2e/generate"
)

// TestCommandsAreDocumented keeps the commands and flags of vidra in docs/reference.md.
func TestCommandsAreDocumented(t *testing.T) {
	var b strings.Builder
	b.WriteString("| Command, flag | |\n|---|---|\n")
	root := newRoot()
	for _, cmd := range below(root) {
		if cmd.Hidden {
			continue
		}
		short := cmd.Short
		if cmd == root {
			short = "The flags of all commands. The other flags of kubectl that name a cluster or a user work, too"
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", cmd.CommandPath(), generate.Cell(short))
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			name := "`--" + f.Name + "`"
			if f.Shorthand != "" {
				name += ", `-" + f.Shorthand + "`"
			}
			fmt.Fprintf(&b, "| %s | %s |\n", name, generate.Cell(f.Usage))
		})
	}
	generate.Section(t, "docs/reference.md", "cmd/vidra", b.String())
}

// below returns a command with those below it, but those of cobra.
func below(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, one := range cmd.Commands() {
		if one.Name() == "completion" {
			all = append(all, one)
			continue
		}
		all = append(all, below(one)...)
	}
	return all
}
