// Command kind runs the end-to-end tests against an operator that is deployed in a cluster. The
// Makefile runs it:
//
//	make e2e-kind                       # on a kind cluster that it makes and deletes
//	make e2e-cluster KUBECONFIG=<path>  # on another cluster
//
// It installs the chart, with the image of `make image`, runs the tests of e2e and e2e/deployed
// with the environment variables that package suite reads, and removes all that was made. It lists the
// tests that were skipped. A kind cluster needs a Docker engine.
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

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

func main() {
	log.SetLogger(logr.Discard()) // of the client
	r := run{started: time.Now()}
	flags := flag.NewFlagSet("kind", flag.ExitOnError) // libraries add flags to that of the process
	flags.StringVar(&r.kubeconfig, "kubeconfig", "", "The kubeconfig of the cluster; a kind cluster is made if empty.")
	flags.StringVar(&r.nodeImage, "node-image", "", "The node image of the kind cluster. Defaults to that of kind.")
	flags.IntVar(&r.workers, "workers", 1, "How many nodes the kind cluster has besides its control plane.")
	flags.StringVar(&r.image, "image", "vidra-operator:dev", "The image of the operator, which the kind cluster gets from bin/image.")
	flags.StringVar(&r.logs, "logs", "bin/kind-logs", "The folder for the logs of the kind cluster, if a test fails.")
	flags.StringVar(&r.only, "run", "", "The tests to run, as for go test -run; all if empty.")
	flags.StringVar(&r.except, "skip", "", "The tests not to run, as for go test -skip.")
	flags.DurationVar(&r.timeout, "timeout", time.Hour, "How long the tests of a package may run.")
	_ = flags.Parse(os.Args[1:]) // it exits at an error
	if r.packages = flags.Args(); len(r.packages) == 0 {
		r.packages = []string{"./e2e/deployed", "./e2e"}
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

// all installs the chart, runs the tests, and removes what it made.
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
	if err := requireDocker(ctx); err != nil {
		return err
	}
	made, err := r.newCluster()
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
	before, err := inventory(ctx, r.kubeconfig)
	if err != nil {
		return err
	}
	remove, err := r.install(ctx)
	if err != nil {
		return err // what it installed is deleted with the cluster
	}
	if err := r.test(ctx, made.variables(ctx)); err != nil {
		return err
	}
	// `make e2e-cluster` promises this. Here, only the tests make objects.
	return errors.Join(remove(), requireNothingLeft(ctx, r.kubeconfig, before))
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
	if r.except != "" {
		r.say("not run were those of %s", r.except)
	}
	text, err := os.ReadFile(r.skippedFile())
	if errors.Is(err, os.ErrNotExist) {
		r.say("no test was skipped")
		return
	}
	all := strings.TrimSpace(string(text))
	r.say("%d tests were skipped, because the operator is deployed:\n%s", strings.Count(all, "\n")+1, all)
}
