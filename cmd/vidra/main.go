// Command vidra is the command line of Vidra. It answers who changed a managed object with its outcome, shows
// VidraResources and the effects of an apply of one, and writes the switches that a user would otherwise write by hand. It
// reads and writes with the rights of its user alone.
//
// Under the name kubectl-vidra it is a plugin of kubectl
// (https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/).
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vidra-operator/vidra/pkg/insight/render"
	"github.com/vidra-operator/vidra/pkg/terminal"
	"github.com/vidra-operator/vidra/pkg/vidratest"
	"github.com/vidra-operator/vidra/pkg/writes"
)

// Exit codes other than 0. diff has the codes of kubectl diff.
const (
	exitFailed      = 1
	exitDiffers     = 1   // of diff: an apply would change something
	exitDiffFailed  = 2   // of diff: it failed, or an apply would be refused
	exitNotMeasured = 2   // of expect and drill: nothing was measured
	exitInterrupted = 130 // as a shell has it for ctrl-C
)

// exitError is an error with an exit code of its own. Without an error, the fault was printed.
type exitError struct {
	code int
	error
}

func (e *exitError) Unwrap() error { return e.error }

// errInterrupted is the error of a command that a signal ended.
var errInterrupted = errors.New("interrupted")

func main() {
	// Logs of libraries are not for the user; errors are returned.
	ctrllog.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	// The command cleans up even if the reader of its output has ended.
	signal.Ignore(syscall.SIGPIPE)

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // the second ctrl-C ends us at once
	root := newRoot()
	nameAfter(root, program)
	if completes(os.Args[0]) {
		root.SetArgs(append([]string{cobra.ShellCompRequestCmd}, os.Args[1:]...))
	}
	os.Exit(run(ctx, root))
}

// run runs a command and returns the exit code.
func run(ctx context.Context, cmd *cobra.Command) int {
	// Answers of a cluster may have control characters: none of them is printed.
	cmd.SetOut(&terminal.Writer{Out: cmd.OutOrStdout()})
	cmd.SetErr(&terminal.Writer{Out: cmd.ErrOrStderr()})
	err := interrupted(ctx, cmd.ExecuteContext(ctx))
	code := exitFailed
	if exit, is := errors.AsType[*exitError](err); is {
		code = exit.code
		if exit.error == nil {
			return code
		}
	}
	switch {
	case err == nil, outputClosed(err):
		return 0
	case errors.Is(err, errInterrupted):
		code = exitInterrupted
	}
	// cobra proposes a command on lines of their own.
	_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "vidra:", render.Line(strings.Join(strings.Fields(reachable(err).Error()), " ")))
	return code
}

// outputClosed reports whether the reader of the output ended, as head does. A connection that breaks while a request is sent fails with
// EPIPE, too, and is an error.
func outputClosed(err error) bool {
	file, is := errors.AsType[*fs.PathError](err)
	return is && errors.Is(file, syscall.EPIPE)
}

// interrupted returns errInterrupted for the error of a command that a signal ended. If its writes are unfinished, it has that error, too.
func interrupted(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	if errors.Is(err, writes.ErrUnfinished) || errors.Is(err, vidratest.ErrNotUndone) {
		return fmt.Errorf("%w: %w", errInterrupted, err)
	}
	return errInterrupted
}

const rootHelp = `A VidraResource is an object that holds a manifest. Vidra keeps the objects of the
manifest in the cluster as it specifies, and reverts edits of them.
This command says who edited an object, what became of the edit and how to keep it.`

const rootExample = `  vidra status                                   # is everything in order?
  vidra why deployment/web -n shop               # who scaled web? why is my label gone? how do I keep this?
  vidra blame deployment/web -n shop --foreign   # what did others add?
  vidra diff -f shop.yaml                        # what would this manifest do?`

// newRoot makes the command with its sub-commands.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           defaultProgram,
		Short:         "Vidra keeps Kubernetes objects as their VidraResource specifies.",
		Long:          rootHelp,
		Example:       rootExample,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	k := newKube()
	k.AddFlags(root.PersistentFlags())
	hideRareFlags(root.PersistentFlags())
	addGroup(root, "Ask:", newUI(k), newStatus(k), newWhy(k), newBlame(k), newHistory(k), newRevisions(k), newEvents(k), newGet(k), newTree(k))
	addGroup(root, "Before an apply:", newDiff(k), newForecast(k), newLint())
	addGroup(root, "Files:", newCreate(k), newDev(k), newExport(k), newKeep(k))
	addGroup(root, "Move:", newMigrate(k))
	addGroup(root, "Switches:", newSuspend(k), newResume(k), newRollback(k), newSkip(k), newAdopt(k), newOrphan(k))
	addGroup(root, "Reconcile:", newReconcile(k), newWait(k))
	addGroup(root, "Assistants:", newMCP(k))
	addGroup(root, "Infrahub:", newInfrahub(k))
	addGroup(root, "Test:", newExpect(k), newDrill(k))
	root.AddCommand(newVersion())
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Flags().Lookup("all-namespaces") != nil {
			cmd.MarkFlagsMutuallyExclusive("namespace", "all-namespaces")
		}
	}
	return root
}

// addGroup adds commands below a title of the help.
func addGroup(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, cmd := range commands {
		cmd.GroupID = title
	}
	root.AddCommand(commands...)
}

// hideRareFlags leaves those flags of kubectl out of the help that name a cluster or a user in other ways
// than by a context. They work.
func hideRareFlags(flags *pflag.FlagSet) {
	shown := []string{"kubeconfig", "context", "namespace", "as", "request-timeout"}
	flags.VisitAll(func(f *pflag.Flag) { f.Hidden = !slices.Contains(shown, f.Name) })
}

// completes reports whether kubectl runs this executable for the completions of its plugin
// (https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/).
func completes(executable string) bool {
	return strings.HasPrefix(filepath.Base(executable), "kubectl_complete-")
}
