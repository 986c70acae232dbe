package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/vidra-operator/vidra/e2e/tour"
)

// leaveTimeout bounds the clean-up of a cluster that is not ours.
const leaveTimeout = 2 * time.Minute

const demoHelp = `Give a tour of what Vidra does: apply the samples, edit their objects as people
do, bring along a kind that did not exist before, and show what Vidra makes of
it, how fast, and what it says about it.

Without flags it starts a Kubernetes control plane of its own, with no container
engine, and the operator on it. The control plane is built from source the first
time, which takes minutes and needs the checkout as the working directory.
Ctrl-C stops all of it.`

const demoExample = `  vidra demo                                    # on a control plane of its own
  vidra demo --keep                             # stay up, to try things by hand
  vidra demo --kubeconfig ~/.kube/config        # on a cluster that runs Vidra`

// demo holds the flags of the command.
type demo struct {
	keep       bool
	kubeconfig string
}

func newDemo() *cobra.Command {
	d := &demo{}
	cmd := &cobra.Command{
		Use:     "demo",
		Short:   "Watch Vidra work",
		Long:    demoHelp,
		Example: demoExample,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return d.run(cmd.Context(), tour.NewPrinter(os.Stdout)) },
	}
	cmd.Flags().BoolVar(&d.keep, "keep", false, "stay up after the tour, with the samples applied, until ctrl-C")
	cmd.Flags().StringVar(&d.kubeconfig, "kubeconfig", "", "give the tour on this cluster, which must run Vidra already, and leave it as it was")
	return cmd
}

// run finds a place for the tour, gives it, and cleans up.
func (d *demo) run(ctx context.Context, out *tour.Printer) (err error) {
	open := ownPlace
	if d.kubeconfig != "" {
		open = func(context.Context, *tour.Printer) (*place, error) { return theirPlace(d.kubeconfig) }
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

	t, err := tour.New(tour.Options{Config: p.config, Operator: p.operator, Print: out})
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
func (d *demo) stay(ctx context.Context, t *tour.Tour, p *place, out *tour.Printer) error {
	if err := t.Stage(ctx); err != nil {
		return p.explain(ctx, err)
	}
	out.Heading("The samples are applied once more. Try it by hand, in another terminal:")
	if p.process != nil {
		out.Line("There is no node here, so Pods stay Pending, and the operator runs as a process, not in a Pod.")
	}
	for _, command := range []string{
		"export KUBECONFIG=" + p.kubeconfig,
		"bin/vidra events --watch",
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

// interrupted marks the error of a command that a signal ended.
func interrupted(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return errInterrupted
}
