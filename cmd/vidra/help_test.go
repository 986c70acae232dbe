package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// TestHelp requires that the help of each command has its purpose in one line, examples that the command accepts, and its exit codes
// if they have a meaning of their own.
func TestHelp(t *testing.T) {
	codes := withExitCodes(t)
	root := newRoot()
	for _, cmd := range append([]*cobra.Command{root}, root.Commands()...) {
		if cmd.Name() == "completion" { // that of cobra
			continue
		}
		t.Run(cmd.Name(), func(t *testing.T) {
			require.Regexp(t, `^[A-Z][^\n]{4,79}$`, cmd.Short, "the purpose, in the list of commands")
			require.NotEmpty(t, cmd.Example)
			for example := range strings.Lines(strings.ReplaceAll(cmd.Example, "\\\n", "")) {
				requireAccepted(t, cmd, example)
			}
			require.Equal(t, codes[cmd.Name()], strings.Contains(cmd.Long, "Exit code"), "the help has exit codes if docs/cli.md has those of the command")
		})
	}
}

// requireAccepted requires that an example runs cmd, or a command below it, with arguments and flags that it has.
func requireAccepted(t *testing.T, cmd *cobra.Command, example string) {
	t.Helper()
	example, _, _ = strings.Cut(example, "   #")
	example, _, _ = strings.Cut(example, " && ")
	args, typed := strings.CutPrefix(strings.TrimSpace(example), defaultProgram+" ")
	require.True(t, typed, example)
	found, rest, err := newRoot().Find(words(args))
	require.NoError(t, err, example)
	if cmd.HasParent() {
		for found.Parent() != nil && found.Parent().HasParent() && found != cmd {
			found = found.Parent() // a command below it
		}
		require.Equal(t, cmd.Name(), found.Name(), example)
		found, _, err = newRoot().Find(words(args))
		require.NoError(t, err, example)
	}
	require.NoError(t, found.ParseFlags(rest), example)
	require.NoError(t, found.ValidateArgs(found.Flags().Args()), example)
	require.NoError(t, found.ValidateRequiredFlags(), example)
	require.NoError(t, found.ValidateFlagGroups(), example)
	if strings.Contains(strings.ReplaceAll(args, "://", ""), "/") {
		require.True(t, found.Flags().Changed("namespace"), "%s: an object has a namespace", example)
	}
}

// words are the words of a command, as a shell splits them: a quoted one may have blanks.
func words(command string) (all []string) {
	for _, word := range regexp.MustCompile(`"[^"]*"|'[^']*'|\S+`).FindAllString(command, -1) {
		all = append(all, strings.Trim(word, `"'`))
	}
	return all
}

// withExitCodes are the commands of which docs/cli.md names the meaning of an exit code.
func withExitCodes(t *testing.T) map[string]bool {
	t.Helper()
	docs, err := os.ReadFile("../../docs/cli.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(docs), "| Exit code | Meaning |\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\n")
	codes := map[string]bool{}
	for _, meaning := range regexp.MustCompile("(?:`[a-z]+`, )*`[a-z]+`:").FindAllString(table, -1) {
		for _, name := range regexp.MustCompile("[a-z]+").FindAllString(meaning, -1) {
			codes[name] = true
		}
	}
	require.NotEmpty(t, codes)
	return codes
}
