package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// The forms of an argument.
const (
	formName          = "a name"
	formObject        = "an object"
	formVidraResource = "a VidraResource"
	formFile          = "a file"
)

// vidraResourceKinds are the names under which the API server serves VidraResources.
var vidraResourceKinds = []string{"vidraresource", "vidraresources", "vr", "vidra"}

// formOf returns the form of an argument, and the name in it.
func formOf(arg string) (form, name string) {
	kind, name, found := strings.Cut(arg, "/")
	kind, _, _ = strings.Cut(strings.ToLower(kind), ".")
	info, err := os.Stat(arg)
	switch {
	case arg == "-", slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(arg)), found && err == nil && info.Mode().IsRegular():
		return formFile, arg
	case !found:
		return formName, arg
	case slices.Contains(vidraResourceKinds, kind):
		return formVidraResource, name
	}
	return formObject, name
}

// wants accepts arguments of some forms, in the number that count accepts.
func wants(count cobra.PositionalArgs, forms ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		given := args
		if slices.Contains(forms, formObject) && len(args) == 2 && !strings.Contains(args[0], "/") {
			given = []string{strings.Join(args, "/")} // KIND NAME
		}
		for _, arg := range given {
			if err := explainArgument(cmd, arg, forms...); err != nil {
				return err
			}
		}
		return count(cmd, args)
	}
}

// explainArgument returns an error about an argument that has none of the wanted forms: what it is, and the command that takes
// it. A name is no such error, because it can be part of anything.
func explainArgument(cmd *cobra.Command, arg string, wanted ...string) error {
	form, name := formOf(arg)
	if form == formName || slices.Contains(wanted, form) {
		return nil
	}
	takes := hint("status", name)
	switch {
	case form == formFile && cmd.Flags().Lookup("filename") != nil:
		takes = hint(cmd.Name(), "-f", arg)
	case form == formFile:
		takes = hint("diff", "-f", arg)
	case form == formObject && cmd.Name() == "events":
		takes = hint("events", "--for", arg, namespaceArgument(cmd))
	case form == formObject:
		takes = hint("why", arg, namespaceArgument(cmd))
	case slices.Contains(wanted, formName):
		takes = hint(cmd.Name(), name)
	}
	return fmt.Errorf("%q is %s: use `%s`", arg, form, takes)
}

// namespaceArgument is the flag -n with the namespace that the user gave, or a placeholder for one.
func namespaceArgument(cmd *cobra.Command) string {
	if given := cmd.Flags().Lookup("namespace"); given != nil && given.Value.String() != "" {
		return "-n " + given.Value.String()
	}
	return "-n NAMESPACE"
}

// similar returns the names that a typing error may have meant, by the measure of cobra for the names of commands.
func similar(typed string, names []string) []string {
	const mostErrors = 2
	known := &cobra.Command{SuggestionsMinimumDistance: min(mostErrors, len(typed)-1)}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		known.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	found := known.SuggestionsFor(typed)
	return found[:min(len(found), mostProposed)]
}

// mostProposed is how many names a message proposes at most.
const mostProposed = 3

// didYouMean proposes names; empty for none.
func didYouMean(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(names, " or ") + "?"
}
