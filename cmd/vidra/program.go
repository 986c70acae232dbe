package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// defaultProgram is the program in the texts of the help, which nameAfter changes.
const defaultProgram = "vidra"

// program is the name of this executable on the user's command line. It is read only.
var program = typedAs(os.Args[0])

// typedAs returns the name of an executable on the user's command line: kubectl runs it as a plugin if its name begins with kubectl-.
func typedAs(executable string) string {
	name, plugin := strings.CutPrefix(filepath.Base(executable), "kubectl-")
	if !plugin {
		return defaultProgram
	}
	return "kubectl " + strings.TrimSuffix(name, ".exe")
}

// hint returns a command of ours that a message proposes, as the user types it. Each message that proposes one has it from here.
func hint(command string, args ...string) string {
	return strings.Join(append([]string{program, command}, args...), " ")
}

// nameAfter sets the program in the help of all commands to its name on the user's command line.
func nameAfter(root *cobra.Command, typed string) {
	if typed == defaultProgram {
		return
	}
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: typed}
	var pairs []string
	for _, cmd := range root.Commands() {
		pairs = append(pairs, defaultProgram+" "+cmd.Name(), typed+" "+cmd.Name())
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
