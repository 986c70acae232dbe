package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vidra-operator/vidra/pkg/insight"
)

// defaultProgram is the program in the texts of the help, which nameAfter changes.
const defaultProgram = "vidra"

// program is the name of this executable on the user's command line. Messages propose commands of it by its Hint. It is read only.
var program = typedAs(os.Args[0])

// typedAs returns the name of an executable on the user's command line: kubectl runs it as a plugin if its name begins with kubectl-.
func typedAs(executable string) insight.Program {
	name, plugin := strings.CutPrefix(filepath.Base(executable), "kubectl-")
	if !plugin {
		return defaultProgram
	}
	return insight.Program("kubectl " + strings.TrimSuffix(name, ".exe"))
}

// nameAfter sets the program in the help of all commands to its name on the user's command line.
func nameAfter(root *cobra.Command, typed insight.Program) {
	if typed == defaultProgram {
		return
	}
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: string(typed)}
	var pairs []string
	for _, cmd := range root.Commands() {
		pairs = append(pairs, defaultProgram+" "+cmd.Name(), typed.Hint(cmd.Name()))
	}
	renameIn(root, strings.NewReplacer(pairs...))
}

// renameIn replaces texts in the help of a command and of those below it.
func renameIn(cmd *cobra.Command, names *strings.Replacer) {
	cmd.Long, cmd.Example = names.Replace(cmd.Long), names.Replace(cmd.Example)
	for _, below := range cmd.Commands() {
		renameIn(below, names)
	}
}
