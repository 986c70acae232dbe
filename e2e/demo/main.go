// Command demo shows what Vidra does: it applies the samples, edits their objects
// as users do, installs a kind that did not exist before, and prints what Vidra
// makes of each edit, how fast, and which Events it writes.
//
//	go run ./e2e/demo                                # on a control plane of its own
//	go run ./e2e/demo --keep                         # stay up, to try things by hand
//	go run ./e2e/demo --kubeconfig ~/.kube/config    # on a cluster that runs Vidra
//
// Everything that it prints happened: every step looks at the cluster, is bounded
// by a timeout, and ends the demo with an error if what should be there is not.
// How long an edit stood is measured by a watch (package stopwatch).
//
// A cluster that --kubeconfig names needs Vidra's CustomResourceDefinition and a
// running operator. The demo leaves it as it found it, but for the Events, which
// the API server keeps for an hour: it changes nothing that exists already, and
// removes what it made, also after an error or ctrl-C.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/terminal"
)

const usage = `Usage: go run ./e2e/demo [--keep] [--kubeconfig FILE]

Apply the samples, edit their objects as users do, install a kind that did not
exist before, and show what Vidra makes of it.

Without flags it starts a Kubernetes control plane of its own, with no container
engine, and the operator on it. The control plane is built from source the first
time, which takes minutes. Ctrl-C stops all of it.

`

// leaveTimeout bounds the clean-up of a cluster that is not ours.
const leaveTimeout = 2 * time.Minute

// Exit codes, in addition to 0.
const (
	exitFailed      = 1
	exitInterrupted = 130 // as a shell has it for ctrl-C
)

// errInterrupted is the error of a demo that a signal ended.
var errInterrupted = errors.New("interrupted")

func main() {
	// Log lines of libraries are dropped; what matters is returned as an error.
	ctrllog.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	// When the reader of the output is gone, the demo still has to clean up.
	signal.Ignore(syscall.SIGPIPE)

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // the second ctrl-C ends the process at once
	os.Exit(exitCode(run(ctx, os.Args[1:], os.Stdout, os.Stderr), os.Stderr))
}

// exitCode prints an error and returns the exit code that it stands for.
func exitCode(err error, out io.Writer) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	_, _ = fmt.Fprintln(&terminal.Writer{Out: out}, "demo:", err)
	if errors.Is(err, errInterrupted) {
		return exitInterrupted
	}
	return exitFailed
}

// demo holds the flags of the command.
type demo struct {
	keep       bool
	kubeconfig string
}

// run runs the command with its arguments.
func run(ctx context.Context, args []string, out *os.File, errOut io.Writer) error {
	d := &demo{}
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.Usage = func() {
		_, _ = fmt.Fprint(errOut, usage)
		flags.PrintDefaults()
	}
	flags.BoolVar(&d.keep, "keep", false, "stay up after the tour, with the samples applied, until ctrl-C")
	flags.StringVar(&d.kubeconfig, "kubeconfig", "", "give the tour on the cluster of this `file`, which must run Vidra already, and leave it as it was")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: see --help", flags.Arg(0))
	}
	return d.run(ctx, newPrinter(out))
}

// run opens the place of the tour, gives the tour, and cleans up.
func (d *demo) run(ctx context.Context, out *printer) (err error) {
	root, err := testenv.Root()
	if err != nil {
		return err
	}
	open := ownPlace
	if d.kubeconfig != "" {
		open = func(context.Context, *printer) (*place, error) { return theirPlace(d.kubeconfig) }
	}
	start := time.Now()
	p, err := open(ctx, out)
	if err != nil {
		return interrupted(ctx, err)
	}
	defer func() { err = errors.Join(err, p.close()) }()
	// What is wrong with the place, as a dead operator, ends the tour.
	tourCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p.watch(cancel)

	t, err := newTour(options{
		Config: p.config, Samples: os.DirFS(filepath.Join(root, "config", "samples")), Operator: p.operator, Print: out,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(interrupted(ctx, err), p.leave(ctx, t, out)) }()
	if err := t.Run(tourCtx); err != nil {
		return p.explain(tourCtx, err)
	}
	out.Heading(fmt.Sprintf("All of it happened, in %s.", time.Since(start).Round(time.Second)))
	if d.keep {
		return d.stay(tourCtx, t, p, out)
	}
	return nil
}

// stay keeps the place up until ctrl-C, which is then no error.
func (d *demo) stay(ctx context.Context, t *tour, p *place, out *printer) error {
	if err := t.Stage(ctx); err != nil {
		return p.explain(ctx, err)
	}
	out.Heading("The samples are applied once more. Try it by hand, in another terminal:")
	if p.process != nil {
		out.Line("There is no node here, so Pods stay Pending, and the operator runs as a process, not in a Pod.")
	}
	for _, command := range []string{
		"export KUBECONFIG=" + p.kubeconfig,
		"go run ./cmd/vidra ui",
		"go run ./cmd/vidra events --watch",
		"kubectl --namespace web edit deployment web",
	} {
		out.Line("%s", command)
	}
	out.Heading("Ctrl-C ends it.")
	<-ctx.Done()
	if errors.Is(context.Cause(ctx), errPlace) {
		return context.Cause(ctx)
	}
	return nil
}

// interrupted returns errInterrupted for the error of a command that a signal ended.
func interrupted(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return errInterrupted
}
