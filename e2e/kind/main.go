// Command kind runs the end-to-end tests against an operator that is deployed in a cluster. The
// Makefile runs it:
//
//	make e2e-kind                       # on a kind cluster that it makes and deletes
//	make e2e-cluster KUBECONFIG=<path>  # on another cluster
//
// It installs Vidra, with the image of `make image`, and runs the tests of e2e
// with the environment variables that package suite reads. In the end it lists the tests that
// were skipped. A kind cluster needs a Docker engine; nothing else in this repository does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

func main() {
	r := run{started: time.Now()}
	flag.StringVar(&r.kubeconfig, "kubeconfig", "", "The kubeconfig of the cluster; a kind cluster is made if empty.")
	flag.StringVar(&r.nodeImage, "node-image", "", "The node image of the kind cluster. Defaults to that of kind.")
	flag.IntVar(&r.workers, "workers", 0, "How many nodes the kind cluster has besides its control plane.")
	flag.StringVar(&r.image, "image", "vidra-operator:dev", "The image of the operator, which the kind cluster gets from bin/image.")
	flag.StringVar(&r.logs, "logs", "bin/kind-logs", "The folder for the logs of the kind cluster, if a test fails.")
	flag.StringVar(&r.only, "run", "", "The tests to run, as for go test -run; all if empty.")
	flag.StringVar(&r.except, "skip", "", "The tests not to run, as for go test -skip.")
	flag.DurationVar(&r.timeout, "timeout", time.Hour, "How long the tests of a package may run.")
	flag.Parse()
	if r.packages = flag.Args(); len(r.packages) == 0 {
		r.packages = []string{"./e2e"}
	}
	if err := r.all(); err != nil {
		fmt.Fprintln(os.Stderr, "kind:", err)
		os.Exit(1)
	}
}

// run is one run of the tests.
type run struct {
	kubeconfig, nodeImage, image, logs, only, except string

	workers  int
	timeout  time.Duration
	packages []string
	started  time.Time
	// root is the checkout, and dir a temporary folder.
	root, dir string
}

// all installs Vidra, runs the tests, and removes what it made.
func (r *run) all() (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if r.root, err = testenv.Root(); err != nil {
		return err
	}
	if r.kubeconfig != "" {
		if r.kubeconfig, err = filepath.Abs(r.kubeconfig); err != nil { // tests run in other folders
			return err
		}
	}
	if r.dir, err = os.MkdirTemp("", "vidra-kind-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.dir) //nolint:errcheck // a leftover is harmless
	if err := os.Chmod(r.dir, 0o755); err != nil {
		return err // the node reads it
	}
	if r.kubeconfig != "" {
		return r.onCluster(ctx)
	}
	return r.onKind(ctx)
}

// onKind runs the tests on a kind cluster that it makes and deletes.
func (r *run) onKind(ctx context.Context) (err error) {
	made, err := r.newCluster(ctx)
	defer func() {
		if err != nil {
			made.exportLogs(r.logs)
		}
		err = errors.Join(err, made.delete())
	}()
	if err != nil {
		return err
	}
	r.kubeconfig = made.kubeconfig
	if _, err := r.install(ctx); err != nil { // what it installs is deleted with the cluster
		return err
	}
	return r.test(ctx, made.variables(ctx))
}

// onCluster runs the tests on the cluster of r.kubeconfig, and removes what it installed there.
func (r *run) onCluster(ctx context.Context) (err error) {
	remove, err := r.install(ctx)
	defer func() { err = errors.Join(err, remove()) }()
	if err != nil {
		return err
	}
	return r.test(ctx, []string{"VIDRA_E2E_KUBECONFIG=" + r.kubeconfig})
}

// say prints what is done, with the seconds since the start.
func (r *run) say(format string, args ...any) {
	fmt.Printf("%4.0fs  %s\n", time.Since(r.started).Seconds(), fmt.Sprintf(format, args...))
}

// skippedFile returns the path of the list of skipped tests.
func (r *run) skippedFile() string { return filepath.Join(r.dir, "skipped") }

// listSkipped prints the tests that were skipped, with why.
func (r *run) listSkipped() {
	text, err := os.ReadFile(r.skippedFile())
	if errors.Is(err, os.ErrNotExist) {
		r.say("no test was skipped")
		return
	}
	all := strings.TrimSpace(string(text))
	r.say("%d tests were skipped, because the operator is deployed:\n%s", strings.Count(all, "\n")+1, all)
}
