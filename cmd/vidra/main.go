// Command vidra is the command line of Vidra: `vidra events` lists the Events that
// the operator wrote.
//
// Under the name kubectl-vidra it is a plugin of kubectl
// (https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/).
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// Exit codes other than 0.
const (
	exitFailed      = 1
	exitInterrupted = 130 // as a shell has it for ctrl-C
)

// errInterrupted is what a command fails with that was ended by a signal.
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
	nameAfter(root, os.Args[0])
	os.Exit(run(ctx, root))
}

// run runs a command and returns the exit code.
func run(ctx context.Context, cmd *cobra.Command) int {
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "vidra:", err)
	if errors.Is(err, errInterrupted) {
		return exitInterrupted
	}
	return exitFailed
}

// interrupted returns errInterrupted for the error of a command that a signal ended.
func interrupted(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return errInterrupted
}

// newRoot makes the command with its sub-commands.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "vidra",
		Short:         "Vidra keeps Kubernetes objects as their VidraResource specifies.",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newEvents(), newVersion())
	return root
}

// nameAfter sets the name of the command in the help to what the user types for this executable:
// kubectl runs it as a plugin if its name begins with kubectl-.
func nameAfter(root *cobra.Command, executable string) {
	name, plugin := strings.CutPrefix(filepath.Base(executable), "kubectl-")
	if !plugin {
		return
	}
	typed := "kubectl " + strings.TrimSuffix(name, ".exe")
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: typed}
	for _, cmd := range root.Commands() {
		cmd.Example = strings.ReplaceAll(cmd.Example, "  vidra ", "  "+typed+" ")
	}
}
