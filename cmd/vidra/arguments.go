package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vidra-operator/vidra/pkg/insight"
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

// explainArgument returns an error about an argument that has none of the wanted forms: its form, and the command that takes
// it. A plain name is exempt, because it can be part of anything.
func explainArgument(cmd *cobra.Command, arg string, wanted ...string) error {
	form, name := formOf(arg)
	if form == formName || slices.Contains(wanted, form) {
		return nil
	}
	takes := program.Hint("status", name)
	switch {
	case form == formFile && cmd.Flags().Lookup("filename") != nil:
		takes = program.Hint(cmd.Name(), "-f", arg)
	case form == formFile:
		takes = program.Hint("diff", "-f", arg)
	case form == formObject && cmd.Name() == "events":
		takes = program.Hint("events", "--for", arg, namespaceArgument(cmd))
	case form == formObject:
		takes = program.Hint("why", arg, namespaceArgument(cmd))
	case slices.Contains(wanted, formName):
		takes = program.Hint(cmd.Name(), name)
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

// countObject accepts as many arguments as name an object.
func countObject(_ *cobra.Command, args []string) error {
	if len(args) == 0 || len(args) > 2 {
		return fmt.Errorf("%d arguments: %s", len(args), wantObject)
	}
	return nil
}

// wantObject is how an object is named.
const wantObject = "want KIND/NAME or KIND.GROUP/NAME, such as configmap/settings, and the namespace with -n"

// target returns the object that the arguments name: KIND/NAME, or KIND NAME.
func (k *kube) target(args []string) (insight.Target, error) {
	kind, name, found := strings.Cut(args[0], "/")
	if len(args) == 2 && !found {
		name = args[1]
	} else if len(args) != 1 || !found {
		return insight.Target{}, fmt.Errorf("%q: %s; about a VidraResource: `%s`", strings.Join(args, " "), wantObject, program.Hint("status", args[0]))
	}
	if kind == "" || name == "" || strings.Contains(name, "/") {
		return insight.Target{}, fmt.Errorf("%q: want KIND/NAME, such as configmap/settings", strings.Join(args, " "))
	}
	namespace, err := k.namespace()
	return insight.Target{Kind: kind, Namespace: namespace, Name: name}, err
}
