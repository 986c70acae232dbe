package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/insight/render"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/vidratest"
)

const expectHelp = `Require that Vidra reverts edits of an object, for a test suite.

  expect healed KIND/NAME                  the object is as its VidraResources want it,
                                           now or before the end of --within
  expect healed KIND/NAME -- COMMAND ...   COMMAND edits the object once, and the edit
                                           is reverted before it has stood for --within

With COMMAND, the time is measured: it begins when a watch of the object shows the edit,
and ends when the same watch shows the object as it was. What an edit only adds is not
an edit of a field that Vidra owns. The command needs the right to patch the object,
because it compares by dry runs. For an object in another cluster, the kubeconfig in the
Secret of that cluster is used, if you may read it.

--junit writes a report with one test case. The Go package pkg/vidratest does the same.

Exit code 0 means healed, 1 that the object is not healed in time, and 2 that the
command failed, or that COMMAND failed or edited no field that Vidra owns.`

const expectExample = `  vidra expect healed configmap/settings -n shop --within 5s
  vidra expect healed configmap/settings -n shop --within 250ms -- \
    kubectl patch configmap/settings -n shop --patch '{"data":{"color":"red"}}'`

// stateHealed is the state that a user can expect.
const stateHealed = "healed"

// expectFlags holds the flags of the command.
type expectFlags struct {
	kube   *kube
	within time.Duration
	junit  string
	// kubeconfigs is the namespace of the Secrets with the kubeconfigs of other clusters.
	kubeconfigs string
}

func newExpect(k *kube) *cobra.Command {
	f := &expectFlags{kube: k}
	cmd := &cobra.Command{
		Use: "expect healed KIND/NAME [-- COMMAND [ARG...]]", Short: "Require that edits of an object are reverted in time",
		Long: expectHelp, Example: expectExample,
		Args: cobra.MinimumNArgs(2),
		ValidArgsFunction: func(cmd *cobra.Command, given []string, begun string) ([]string, cobra.ShellCompDirective) {
			if len(given) == 0 {
				return []string{stateHealed}, cobra.ShellCompDirectiveNoFileComp
			}
			return k.completeObject(cmd, given[1:], begun)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var command []string
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				args, command = args[:n], args[n:]
			}
			return measured(f.run(cmd, args, command))
		},
	}
	cmd.Flags().DurationVar(&f.within, "within", time.Second, "for how long an edit may stand at most")
	addKubeconfigNamespace(cmd, &f.kubeconfigs)
	cmd.Flags().StringVar(&f.junit, "junit", "", "write a report in JUnit XML to a file")
	return cmd
}

// measured gives the error of a measurement its exit code.
func measured(err error) error {
	if _, is := errors.AsType[*vidratest.NotHealedError](err); is || err == nil {
		return err
	}
	return &exitError{code: exitNotMeasured, error: err}
}

func (f *expectFlags) run(cmd *cobra.Command, args, command []string) error {
	if len(args) < 2 || !strings.EqualFold(args[0], stateHealed) {
		return fmt.Errorf("%q: want healed KIND/NAME, and a command only after --", strings.Join(args, " "))
	}
	heal, err := f.expect(cmd.Context(), args[1:], command, cmd.ErrOrStderr())
	text := healText(heal, len(command) > 0)
	if f.junit != "" {
		result := vidratest.Result{Name: strings.Join(args, " ") + " within " + f.within.String(), Took: heal.Stood, Err: err}
		if err == nil {
			result.Output = text
		}
		if failed := writeReport(f.junit, result); failed != nil {
			return errors.Join(err, failed)
		}
	}
	if err != nil {
		return err
	}
	return printText(cmd.OutOrStdout(), text)
}

// cluster is the cluster of a test, with the kubeconfigs of other clusters in Secrets of a namespace.
func (k *kube) cluster(kubeconfigs string) (*vidratest.Cluster, error) {
	config, err := k.config()
	if err != nil {
		return nil, err
	}
	c, err := vidratest.New(config)
	if err != nil {
		return nil, err
	}
	c.Destinations.Namespace, c.CommandLine = kubeconfigs, string(program)
	return c, nil
}

// expect measures the heal of the edit that a command makes, or waits for the heal of an earlier edit.
func (f *expectFlags) expect(ctx context.Context, args, command []string, errOut io.Writer) (vidratest.Heal, error) {
	target, err := f.kube.target(args)
	if err != nil {
		return vidratest.Heal{}, err
	}
	client, err := f.kube.insight()
	if err != nil {
		return vidratest.Heal{}, err
	}
	id, err := client.Identify(target)
	if err != nil {
		return vidratest.Heal{}, err
	}
	cluster, err := f.kube.cluster(f.kubeconfigs)
	if err != nil {
		return vidratest.Heal{}, err
	}
	if len(command) == 0 {
		return cluster.AwaitHealed(ctx, vidratest.Object(id), f.within)
	}
	return cluster.Healed(ctx, vidratest.Object(id), f.within, func(ctx context.Context) error { return runEdit(ctx, command, errOut) })
}

// runEdit runs the command that edits an object. It does not wait for processes that the command leaves behind with its output: an edit that
// is made would be measured until their end.
func runEdit(ctx context.Context, command []string, out io.Writer) error {
	edit := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // the user gives it
	edit.Stdout, edit.Stderr, edit.WaitDelay = out, out, time.Second
	if err := edit.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return fmt.Errorf("the command %s: %w", command[0], err)
	}
	return nil
}

// writeReport writes a report in JUnit XML.
func writeReport(path string, result vidratest.Result) error {
	file, err := os.Create(path) //nolint:gosec // the user names it
	if err != nil {
		return fmt.Errorf("--junit: %w", err)
	}
	return errors.Join(vidratest.WriteJUnit(file, "vidra expect", result), file.Close())
}

// healText is a heal for users. timed reports that its edit was seen.
func healText(heal vidratest.Heal, timed bool) string {
	var b strings.Builder
	switch {
	case timed:
		b.WriteString(render.Sprintf("%s: healed %s after the edit was seen\n", heal.Object, short(heal.Stood)))
	case len(heal.Changes) == 0 && !heal.Deleted:
		b.WriteString(render.Sprintf("%s: as wanted\n", heal.Object))
	default:
		b.WriteString(render.Sprintf("%s: healed %s after the command began\n", heal.Object, short(heal.Stood)))
	}
	if heal.Deleted {
		b.WriteString("  it had been deleted\n")
	}
	for _, c := range heal.Changes {
		b.WriteString("  " + render.Line(events.Differences([]ownership.Change{c})) + "\n")
	}
	return b.String()
}

// short is a duration that was measured.
func short(d time.Duration) string {
	const exact = 100 * time.Microsecond
	return d.Round(exact).String()
}
