package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/vidra-operator/vidra/e2e/generate"
)

// TestCommandsAreDocumented keeps the commands and flags of vidra in docs/reference.md.
func TestCommandsAreDocumented(t *testing.T) {
	var b strings.Builder
	b.WriteString("| Command, flag | |\n|---|---|\n")
	for _, cmd := range newRoot().Commands() {
		if cmd.Hidden {
			continue
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", cmd.CommandPath(), generate.Cell(cmd.Short))
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			name := "`--" + f.Name + "`"
			if f.Shorthand != "" {
				name += ", `-" + f.Shorthand + "`"
			}
			fmt.Fprintf(&b, "| %s | %s |\n", name, generate.Cell(f.Usage))
		})
	}
	generate.Section(t, "docs/reference.md", "cmd/vidra", b.String())
}
