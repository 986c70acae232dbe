package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

// memoryOptions are the flags of memory.
type memoryOptions struct {
	objects  int
	perOwner int
	timeout  time.Duration
	output   string
}

func (o *memoryOptions) parse(args []string) error {
	fs := flag.NewFlagSet("memory", flag.ContinueOnError)
	fs.IntVar(&o.objects, "objects", 10_000, "How many ConfigMaps are watched.")
	fs.IntVar(&o.perOwner, "per-resource", 100, "How many of them belong to one VidraResource.")
	fs.DurationVar(&o.timeout, "timeout", 10*time.Minute, "How long one way to watch may take for all objects.")
	fs.StringVar(&o.output, "o", "table", "What to print: table or json.")
	if err := parseFlags(fs, os.Stderr, args); err != nil {
		return err
	}
	return errors.Join(atLeastOne("objects", o.objects), atLeastOne("per-resource", o.perOwner), checkOutput(o.output))
}

// runMemory measures what it takes to watch objects that Vidra applied: the
// memory that is kept, the memory that is needed to begin, and the CPU time of an
// event. Beside Vidra's watch it measures the informers that there are for any
// kind. Each runs in a process of its own, which does nothing else.
func runMemory(ctx context.Context, args []string) error {
	var o memoryOptions
	if err := o.parse(args); err != nil {
		return err
	}
	result, err := memory(ctx, o)
	if err != nil {
		return err
	}
	return show(os.Stdout, result, o.output)
}

// memory starts a control plane, applies the objects, and measures each way to
// watch them, one after the other.
func memory(ctx context.Context, o memoryOptions) (_ *memoryReport, err error) {
	env, err := testenv.Start(ctx, testenv.Options{Out: os.Stderr})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, env.Stop()) }()
	client, err := dynamic.NewForConfig(env.Config)
	if err != nil {
		return nil, err
	}
	server, err := discovery.NewDiscoveryClientForConfig(env.Config)
	if err != nil {
		return nil, err
	}
	version, err := server.ServerVersion()
	if err != nil {
		return nil, err
	}
	p := population{client: client, objects: o.objects, perOwner: o.perOwner}
	if err := p.apply(ctx); err != nil {
		return nil, err
	}
	report := &memoryReport{
		Environment: environment{Kubernetes: version.GitVersion, CPUs: runtime.NumCPU()},
		Objects:     o.objects, PerResource: o.perOwner, Goal: memoryGoal,
	}
	for _, w := range ways {
		_, _ = fmt.Fprintf(os.Stderr, "%s\n", w.name)
		figures, err := p.watch(ctx, w.name, env.KubeconfigPath, o.timeout)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.name, err)
		}
		report.Ways = append(report.Ways, wayReport{Way: w.name, watchFigures: figures})
	}
	return report, nil
}

// watch has a process watch the objects in one way, edits each object once, and
// returns what the process measured.
func (p population) watch(ctx context.Context, way, kubeconfig string, timeout time.Duration) (figures watchFigures, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	w, err := startObserver(ctx, way, kubeconfig, p.objects)
	if err != nil {
		return figures, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	if err := w.await(observerReady); err != nil {
		return figures, err
	}
	if err := p.edit(ctx, way); err != nil {
		return figures, err
	}
	return w.figures()
}
