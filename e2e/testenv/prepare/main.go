// Command prepare builds what is missing of the control plane that the tests
// run against, and of kubectl and helm, with progress on standard error, and prints the
// folder that holds the control plane:
//
//	export KUBEBUILDER_ASSETS=$(go run ./e2e/testenv/prepare)
//
// The tests build it too, but `go test` shows nothing until they are done. The operator and the
// command line are built as well, once for the tests that are started at the same time.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := testenv.Assets(ctx, testenv.Options{Out: os.Stderr})
	if err != nil {
		return err
	}
	if _, err := testenv.Kubectl(ctx, testenv.Options{Out: os.Stderr}); err != nil {
		return err
	}
	if _, err := testenv.Helm(ctx, testenv.Options{Out: os.Stderr}); err != nil {
		return err
	}
	if _, err := testenv.BuildOperator(ctx, os.Stderr, false); err != nil {
		return err
	}
	if _, err := testenv.BuildCLI(ctx, os.Stderr, false); err != nil {
		return err
	}
	fmt.Println(dir)
	return nil
}
