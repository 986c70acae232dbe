package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/normalize"
	ssautils "github.com/fluxcd/pkg/ssa/utils"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	fluxNamespace = "bench-flux"
	// fluxCommand and fluxLoopCommand are sub-commands that this process starts itself with.
	fluxCommand     = "flux"
	fluxLoopCommand = "flux-loop"
	// fluxModule is the module that is measured as the peer.
	fluxModule = "github.com/fluxcd/pkg/ssa"
	// fluxParallel is how many sets are applied at a time, and in how many goroutines each: the
	// defaults of --concurrent and --concurrent-ssa of kustomize-controller.
	fluxParallel = 4

	// What the loop is asked to do, and what it prints when it has done it.
	fluxGo, fluxGoing, fluxStop, fluxStopped = "go", "going", "stop", "stopped"
)

// flux applies sets of objects as kustomize-controller does with the ResourceManager of Flux, without
// what that does around it.
type flux struct{ manager *ssa.ResourceManager }

func newFlux(config *rest.Config) (*flux, error) {
	c, err := client.New(config, client.Options{})
	if err != nil {
		return nil, err
	}
	// Only sets with definitions of kinds and Namespaces need a poller.
	f := &flux{manager: ssa.NewResourceManager(c, nil, ssa.Owner{Field: "kustomize-controller", Group: "kustomize.toolkit.fluxcd.io"})}
	f.manager.SetConcurrency(fluxParallel)
	return f, nil
}

// read reads a manifest.
func (f *flux) read(name, manifest string) ([]*unstructured.Unstructured, error) {
	objects, err := ssautils.ReadObjects(strings.NewReader(manifest))
	if err != nil {
		return nil, err
	}
	f.manager.SetOwnerLabels(objects, name, fluxNamespace)
	return objects, normalize.UnstructuredList(objects)
}

// apply compares each object with what a dry run returns, and applies those that differ.
func (f *flux) apply(ctx context.Context, objects []*unstructured.Unstructured) error {
	_, err := f.manager.ApplyAllStaged(ctx, objects, fluxOptions())
	return err
}

// fluxOptions are the options that kustomize-controller applies with: edits with kubectl are undone
// with all that they added.
func fluxOptions() ssa.ApplyOptions {
	o := ssa.DefaultApplyOptions()
	o.Cleanup = ssa.ApplyCleanupOptions{
		Annotations: []string{corev1.LastAppliedConfigAnnotation},
		FieldManagers: []ssa.FieldManager{
			{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationApply},
			{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationUpdate},
			{Name: "before-first-apply", OperationType: metav1.ManagedFieldsOperationUpdate},
			{Name: "kustomize-controller", OperationType: metav1.ManagedFieldsOperationUpdate},
		},
	}
	return o
}

// runFlux is the peer of runApplier: it applies or deletes the sets of a batch, several at a time.
func runFlux(ctx context.Context, args []string, _ io.Reader, out io.Writer) error {
	var o operation
	config, err := o.parse(fluxCommand, args)
	if err != nil {
		return err
	}
	f, err := newFlux(config)
	if err != nil {
		return err
	}
	return doWork(out, func() error {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(fluxParallel)
		for i := range o.sets {
			group.Go(func() error {
				objects, err := f.read(o.resource(i), o.set(o.at, i))
				if err != nil {
					return err
				}
				if o.op == opDelete {
					_, err = f.manager.DeleteAll(ctx, objects, ssa.DefaultDeleteOptions())
					return err
				}
				return f.apply(ctx, objects)
			})
		}
		return group.Wait()
	})
}

// runFluxLoop is the peer of runFloor: it applies the objects that are edited. Between the lines
// "go" and "stop" on its standard input, it does that again and again without a pause, as it has no watch.
func runFluxLoop(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	fs := childFlags(fluxLoopCommand)
	namespace := fs.String("namespace", "", "The namespace of the peer's objects.")
	n := fs.Int("objects", 0, "How many objects there are.")
	config, err := childConfig(fs, args)
	if err != nil {
		return err
	}
	f, err := newFlux(config)
	if err != nil {
		return err
	}
	objects, err := f.read(resourceName, manifest(*namespace, *n))
	if err != nil {
		return err
	}
	if err := f.apply(ctx, objects); err != nil {
		return err
	}
	asked := make(chan string)
	go func() {
		defer close(asked)
		for lines := bufio.NewScanner(in); lines.Scan(); {
			asked <- lines.Text()
		}
	}()
	return f.loop(ctx, objects, asked, out)
}

// loop applies the objects while it is asked to, until asked is closed. That an apply is refused is no
// reason to end: kustomize-controller would try again, too.
func (f *flux) loop(ctx context.Context, objects []*unstructured.Unstructured, asked <-chan string, out io.Writer) error {
	failed := map[string]bool{}
	again := func() {
		if err := f.apply(ctx, objects); err != nil && ctx.Err() == nil && !failed[err.Error()] {
			failed[err.Error()] = true
			_, _ = fmt.Fprintf(os.Stderr, "%s: %v\n", fluxSide, err)
		}
	}
	_, _ = fmt.Fprintln(out, childReady)
	for going, open := false, true; open && ctx.Err() == nil; {
		if !going {
			_, open = <-asked
			if !open {
				return nil
			}
			again() // the edit comes after one whole call
			_, _ = fmt.Fprintln(out, fluxGoing)
			going = true
		}
		select {
		case _, open = <-asked:
			going = false
			_, _ = fmt.Fprintln(out, fluxStopped)
		default:
			again()
		}
	}
	return ctx.Err()
}

// fluxLoop is the process that runs runFluxLoop.
type fluxLoop struct{ *child }

// startFluxLoop starts the peer of heal, and returns when it has applied its objects.
func startFluxLoop(ctx context.Context, kubeconfig string, objects int) (*fluxLoop, error) {
	c, err := startReady(ctx, fluxSide, fluxLoopCommand, "-kubeconfig", kubeconfig, "-namespace", fluxNamespace,
		"-objects", fmt.Sprint(objects))
	if err != nil {
		return nil, err
	}
	return &fluxLoop{c}, nil
}

// begin has the loop begin, and end has it stop: it takes no part of the machine while other sides are measured.
func (f *fluxLoop) begin() error { return f.ask(fluxGo, fluxGoing) }
func (f *fluxLoop) end() error   { return f.ask(fluxStop, fluxStopped) }

func (f *fluxLoop) ask(what, answer string) error {
	if _, err := fmt.Fprintln(f.hold, what); err != nil {
		return fmt.Errorf("%s: %w", f.what, err)
	}
	return f.await(answer)
}

// fluxNote describes what the peer is, and what it does not do.
func fluxNote(loop bool) string {
	version := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == fluxModule {
				version = " " + module.Version
			}
		}
	}
	text := fluxSide + " is " + fluxModule + version + " with the options and the concurrency of kustomize-controller. It has no watch: each call " +
		"sends a GET and a dry-run PATCH for each object, and a PATCH for those that differ."
	if loop {
		text += " Here it is called again and again without a pause, while it is measured; kustomize-controller calls it once in spec.interval, " +
			"which is minutes. So its times are the least that is possible with it, not what a user of Flux sees."
	}
	return text + " It keeps no inventory and writes no status and no Events, which kustomize-controller does around it."
}
