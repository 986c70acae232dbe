package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/insight/render"
	"github.com/vidra-operator/vidra/pkg/writes/migrate"
)

const migrateHelp = `Move objects from another tool to a VidraResource, and back. Without --apply, the command
prints the VidraResource, what has no counterpart in it, and the steps; it writes nothing.

  flux KUSTOMIZATION   a Kustomization of Flux: its source, path and settings
  helm RELEASE         a release of Helm: the manifest that it rendered last
  kubectl -l SELECTOR  objects that kubectl apply wrote

--apply stops the tool, creates the VidraResource, which adopts the objects without a
change, and then releases the fields and marks of the tool. No object is deleted or
created again. A run that is interrupted is finished by the next one. --undo goes back.

A finding marked "accept" keeps --apply from writing until --accept FIELD names it.

Environment values in the manifest are printed; Secrets are not. Exit code 0 means that it can be applied, or was, 1 that a finding is in the way or that
an object has changed, and 2 that the command failed.`

const migrateExample = `  vidra migrate flux web -n shop
  vidra migrate flux web -n shop --apply --accept healthChecks
  vidra migrate helm web -n shop --apply
  vidra migrate kubectl -n shop -l app=web --name web --apply
  vidra migrate kubectl -n shop -l app=web --name web --undo`

// migrateFlags holds the flags of the commands.
type migrateFlags struct {
	kube          *kube
	options       migrate.Options
	operator      operatorFlags
	output        string
	selector      string
	clusterScoped bool
	apply, undo   bool
}

func newMigrate(k *kube) *cobra.Command {
	cmd := &cobra.Command{
		Use: "migrate", Short: "Move objects from Flux, Helm or kubectl to a VidraResource", Long: migrateHelp, Example: migrateExample,
		Args: func(cmd *cobra.Command, given []string) error { return diffError(cobra.NoArgs(cmd, given)) },
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newMigrateFrom(k, "flux KUSTOMIZATION", "Move the objects of a Kustomization of Flux", cobra.ExactArgs(1),
			func(_ *migrateFlags, c *migrate.Client, namespace string, args []string) (migrate.Tool, error) {
				return c.Flux(namespace, args[0]), nil
			}),
		newMigrateFrom(k, "helm RELEASE", "Move the objects of a release of Helm", cobra.ExactArgs(1),
			func(_ *migrateFlags, c *migrate.Client, namespace string, args []string) (migrate.Tool, error) {
				return c.Helm(namespace, args[0]), nil
			}),
		newMigrateFrom(k, "kubectl", "Move objects that kubectl apply wrote", cobra.NoArgs,
			func(f *migrateFlags, c *migrate.Client, namespace string, _ []string) (migrate.Tool, error) {
				return c.Kubectl(namespace, f.selector, f.clusterScoped)
			}))
	return cmd
}

// toolFrom returns the tool that the flags, a namespace and the arguments name.
type toolFrom func(f *migrateFlags, c *migrate.Client, namespace string, args []string) (migrate.Tool, error)

// newMigrateFrom makes the command for a tool.
func newMigrateFrom(k *kube, use, short string, args cobra.PositionalArgs, tool toolFrom) *cobra.Command {
	f := &migrateFlags{kube: k}
	cmd := &cobra.Command{
		Use: use, Short: short, Long: migrateHelp, Example: examplesOf(use),
		Args: func(cmd *cobra.Command, given []string) error { return diffError(args(cmd, given)) },
		RunE: func(cmd *cobra.Command, given []string) error {
			return diffError(f.run(cmd, given, tool))
		},
	}
	flags := cmd.Flags()
	f.operator.add(cmd)
	flags.StringVar(&f.options.Name, "name", "", "the VidraResource; default: the name of what is moved, or for kubectl the namespace")
	flags.StringSliceVar(&f.options.Accept, "accept", nil, "the fields of findings that you accept; may be repeated")
	flags.DurationVar(&f.options.Timeout, "timeout", 2*time.Minute, "how long to wait at most for the tool and for the operator")
	flags.BoolVar(&f.apply, "apply", false, "carry the steps out")
	flags.BoolVar(&f.undo, "undo", false, "go back: delete the VidraResource without its objects, and start the tool again")
	if cmd.Name() != "flux" {
		flags.StringVar(&f.options.PartsNamespace, "parts-namespace", "", "the namespace of the ConfigMaps and Secrets with the manifest; default: the namespace of the objects")
	}
	if cmd.Name() == "kubectl" {
		flags.StringVarP(&f.selector, "selector", "l", "", "the labels of the objects")
		flags.BoolVar(&f.clusterScoped, "cluster-scoped", false, "also move objects without a namespace that have the labels")
	}
	addOutput(cmd, &f.output, outputJSON, outputYAML)
	return cmd
}

// again returns the command line without the flags of the action.
func again(cmd *cobra.Command, given []string, namespace string) string {
	words := append([]string{cmd.Name()}, given...)
	words = append(words, "-n", namespace)
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		switch value := flag.Value.String(); {
		case slices.Contains([]string{"apply", "undo", "accept", "output", "namespace"}, flag.Name):
		case flag.Name != "context" && flag.Name != "kubeconfig" && cmd.InheritedFlags().Lookup(flag.Name) != nil: // such as --token
		case value == "true":
			words = append(words, "--"+flag.Name)
		case flag.Name == "selector":
			words = append(words, "-l", insight.Quoted(value))
		default:
			words = append(words, "--"+flag.Name, insight.Quoted(value))
		}
	})
	return program.Hint("migrate", words...)
}

// examplesOf returns the examples for a tool.
func examplesOf(use string) string {
	name, _, _ := strings.Cut(use, " ")
	lines := slices.DeleteFunc(strings.Split(migrateExample, "\n"), func(line string) bool { return !strings.Contains(line, " migrate "+name+" ") })
	return strings.Join(lines, "\n")
}

func (f *migrateFlags) run(cmd *cobra.Command, given []string, tool toolFrom) error {
	if f.apply && f.undo {
		return errors.New("--apply and --undo: set one of them")
	}
	if err := validateNamespace("parts-namespace", f.options.PartsNamespace); err != nil {
		return err
	}
	namespace, err := f.kube.namespace()
	if err != nil {
		return err
	}
	config, options, err := f.operator.connection(f.kube)
	if err != nil {
		return err
	}
	client, err := migrate.New(config, options)
	if err != nil {
		return err
	}
	from, err := tool(f, client, namespace, given)
	if err != nil {
		return err
	}
	ctx, out, errOut, again := cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), again(cmd, given, namespace)
	bar := newBar(errOut)
	defer bar.clear()
	f.options.Progress = func(done, all int) { bar.set("objects", int64(done), int64(all)) }
	if f.undo {
		objects, err := client.Undo(ctx, from, f.options)
		if err != nil {
			return err
		}
		bar.clear()
		return printText(out, render.Sprintf("went back: %s stay, without VidraResource\n", render.Plural(objects, "object")))
	}
	plan, err := client.Plan(ctx, from, f.options)
	if err != nil {
		return err
	}
	bar.clear()
	printMessages(errOut, plan.Remarks)
	blocked := plan.Blocked()
	if !f.apply || len(blocked) > 0 {
		if err := f.print(plan, out); err != nil {
			return err
		}
	}
	accepted := slices.Clone(f.options.Accept)
	for _, finding := range blocked {
		if finding.Severity == migrate.Refused {
			return &exitError{code: exitDiffers, error: fmt.Errorf("%s is not moved: %s: %s", plan.From, finding.Field, finding.Text)}
		}
		if !slices.Contains(accepted, finding.Field) {
			accepted = append(accepted, finding.Field)
		}
	}
	switch {
	case len(blocked) > 0:
		printMessage(errOut, fmt.Sprintf("if you accept that: `%s --apply --accept %s`", again, strings.Join(accepted, ",")))
		return &exitError{code: exitDiffers}
	case !f.apply:
		if len(accepted) > 0 {
			again += " --accept " + strings.Join(accepted, ",")
		}
		printMessage(errOut, fmt.Sprintf("nothing was written: `%s --apply` does the steps", again))
		return nil
	}
	for _, finding := range plan.Findings { // without --apply, the plan has them
		printMessage(errOut, finding.String())
	}
	shown := len(plan.Remarks)
	done, err := client.Apply(ctx, plan)
	bar.clear()
	printMessages(errOut, plan.Remarks[shown:])
	if err != nil {
		return err
	}
	for _, name := range done.Left {
		printMessage(errOut, name+" was applied by "+plan.From+", and is not in the inventory of VidraResource "+plan.Name+": nothing manages it")
	}
	text := render.Sprintf("VidraResource %s manages %s, of which %s; released %s\n%s\n`%s --undo` goes back\n", plan.Name, render.Plural(done.Objects, "object"),
		areUnchanged(done), render.Plural(done.Released, "object"), done.Next, again)
	if err := printText(out, text); err != nil {
		return err
	}
	if len(done.Changed) > 0 {
		return &exitError{code: exitDiffers, error: errors.New("changed meanwhile: " + strings.Join(done.Changed, "; "))}
	}
	return nil
}

func areUnchanged(done *migrate.Result) string {
	switch n := done.Compared - len(done.Changed); {
	case done.Compared == 0:
		return "none was compared with what it was before"
	case n == 1:
		return "1 is unchanged"
	default:
		return fmt.Sprintf("%d are unchanged", n)
	}
}

// print prints a plan.
func (f *migrateFlags) print(plan *migrate.Plan, out io.Writer) error {
	if f.output != "" {
		return printDocument(out, f.output, plan)
	}
	text, err := plan.Text()
	if err != nil {
		return err
	}
	return printText(out, text)
}
