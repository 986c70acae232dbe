package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"
)

const (
	// applierCommand and listerCommand are sub-commands that this process starts itself with.
	applierCommand = "applier"
	listerCommand  = "lister"
	// pageSize is how many objects lister asks for at a time, as client-go's pager does.
	pageSize = 500
)

// runApplier is the floor of apply: it applies n ConfigMaps, several at a time, and prints how
// many seconds it took.
func runApplier(ctx context.Context, args []string, _ io.Reader, out io.Writer) error {
	fs := flag.NewFlagSet(applierCommand, flag.ContinueOnError)
	kubeconfig := fs.String("kubeconfig", "", "The kubeconfig of the floor's ServiceAccount.")
	namespace := fs.String("namespace", "", "The namespace of the floor's objects.")
	round := fs.Int("round", 0, "The number of the round.")
	n := fs.Int("objects", 0, "How many objects to apply.")
	if err := parseFlags(fs, os.Stderr, args); err != nil {
		return err
	}
	resource, err := floorResource(ctx, *kubeconfig, *namespace)
	if err != nil {
		return err
	}
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := range *n {
		group.Go(func() error {
			_, err := resource.Patch(ctx, fmt.Sprintf("settings-%d-%d", *round, i), types.ApplyYAMLPatchType,
				[]byte(configMapText(*namespace, *round, i)), metav1.PatchOptions{FieldManager: applierCommand, Force: ptr.To(true)})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(time.Since(began).Seconds())
}

// runLister is the floor of restart: it lists the ConfigMaps with a label once, as the pager of
// client-go does, and prints how many seconds it took.
func runLister(ctx context.Context, args []string, _ io.Reader, out io.Writer) error {
	fs := flag.NewFlagSet(listerCommand, flag.ContinueOnError)
	kubeconfig := fs.String("kubeconfig", "", "The kubeconfig of the floor's ServiceAccount.")
	selector := fs.String("selector", "", "The label.")
	n := fs.Int("objects", 0, "How many objects there are.")
	if err := parseFlags(fs, os.Stderr, args); err != nil {
		return err
	}
	resource, err := floorResource(ctx, *kubeconfig, "")
	if err != nil {
		return err
	}
	began, found := time.Now(), 0
	for options := (metav1.ListOptions{LabelSelector: *selector, Limit: pageSize}); ; {
		page, err := resource.List(ctx, options)
		if err != nil {
			return err
		}
		found += len(page.Items)
		if options.Continue = page.GetContinue(); options.Continue == "" {
			break
		}
	}
	if found != *n {
		return fmt.Errorf("the floor listed %d objects, not %d", found, *n)
	}
	return json.NewEncoder(out).Encode(time.Since(began).Seconds())
}

// floorResource returns a client for ConfigMaps with an open connection.
func floorResource(ctx context.Context, kubeconfig, namespace string) (dynamic.ResourceInterface, error) {
	config, err := childConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	if err := warmUp(ctx, config); err != nil {
		return nil, err
	}
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return c.Resource(configMap.gvr).Namespace(namespace), nil
}

// runTimed runs a sub-command that prints how many seconds its work took.
func runTimed(ctx context.Context, what string, args ...string) (seconds float64, err error) {
	c, err := startChild(ctx, what, args...)
	if err != nil {
		return 0, err
	}
	err = json.NewDecoder(c.out).Decode(&seconds)
	if stopped := c.stop(); stopped != nil {
		err = stopped
	}
	return seconds, err
}
