// Command vidra is the command line of Vidra. `vidra demo` shows a person what
// the operator does.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// Exit codes, besides 0.
const (
	exitFailed      = 1
	exitInterrupted = 130 // as a shell has it for ctrl-C
)

// errInterrupted is what a command fails with that was ended by a signal.
var errInterrupted = errors.New("interrupted")

func main() {
	// What libraries log is not for people; what matters comes back as an error.
	ctrllog.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	// When whoever reads our output is gone, we still have to clean up.
	signal.Ignore(syscall.SIGPIPE)

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // the second ctrl-C ends us at once
	os.Exit(run(ctx, newRoot()))
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

// newRoot makes the command with its sub-commands.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "vidra",
		Short:         "Vidra keeps Kubernetes objects the way a VidraResource says they are.",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newDemo(), newVersion())
	return root
}
