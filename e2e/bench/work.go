package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

const (
	// applierCommand and listerCommand are sub-commands that this process starts itself with.
	applierCommand = "applier"
	listerCommand  = "lister"
	// pageSize is how many objects lister asks for at a time, as client-go's pager does.
	pageSize = 500

	// What a child does with a batch.
	opApply  = "apply"
	opChange = "change"
	opDelete = "delete"
)

// work is what a child reports when it has done its work.
type work struct {
	// Seconds is how long it took.
	Seconds float64 `json:"seconds"`
	// Usage is what the process took for it.
	Usage usage `json:"usage"`
}

// doWork does the work of a child, and prints what it took.
func doWork(out io.Writer, do func() error) error {
	began := time.Now()
	if err := do(); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(work{Seconds: time.Since(began).Seconds(), Usage: readUsage(os.Getpid())})
}

// operation is what a child does with a batch.
type operation struct {
	batch
	// op is opApply, opChange or opDelete.
	op string
	// at is the namespace of the objects.
	at string
}

// parse parses the arguments of a child, and returns how it reaches the API server.
func (o *operation) parse(command string, args []string) (*rest.Config, error) {
	fs := childFlags(command)
	fs.StringVar(&o.at, "namespace", "", "The namespace of the objects.")
	fs.StringVar(&o.op, "op", opApply, "What to do.")
	o.flags(fs)
	return childConfig(fs, args)
}

// runApplier is the floor of what is done with many objects: it applies, changes or deletes the
// objects of a batch, several at a time, and does nothing else.
func runApplier(ctx context.Context, args []string, _ io.Reader, out io.Writer) error {
	var o operation
	config, err := o.parse(applierCommand, args)
	if err != nil {
		return err
	}
	client, err := warmClient(ctx, config)
	if err != nil {
		return err
	}
	return doWork(out, func() error {
		step := 1
		if o.op == opChange {
			step = o.perSet // the other objects stay as they are
		}
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(parallel)
		for i := 0; i < o.objects(); i += step {
			group.Go(func() error {
				resource := client.Resource(o.gvr(i)).Namespace(o.at)
				if o.op == opDelete {
					return resource.Delete(ctx, o.name(i), metav1.DeleteOptions{})
				}
				_, err := resource.Patch(ctx, o.name(i), types.ApplyYAMLPatchType, []byte(o.text(o.at, i)),
					metav1.PatchOptions{FieldManager: applierCommand, Force: ptr.To(true)})
				return err
			})
		}
		return group.Wait()
	})
}

// runLister is the floor of restart: it lists the ConfigMaps with a label once, as the pager of
// client-go does.
func runLister(ctx context.Context, args []string, _ io.Reader, out io.Writer) error {
	fs := childFlags(listerCommand)
	selector := fs.String("selector", "", "The label.")
	n := fs.Int("objects", 0, "How many objects there are.")
	config, err := childConfig(fs, args)
	if err != nil {
		return err
	}
	client, err := warmClient(ctx, config)
	if err != nil {
		return err
	}
	return doWork(out, func() error {
		found, err := countConfigMaps(ctx, client, *selector)
		if err == nil && found != *n {
			err = fmt.Errorf("the floor listed %d objects, not %d", found, *n)
		}
		return err
	})
}

// countConfigMaps lists the ConfigMaps with a label in pages, and counts them.
func countConfigMaps(ctx context.Context, client dynamic.Interface, selector string) (int, error) {
	n := 0
	for options := (metav1.ListOptions{LabelSelector: selector, Limit: pageSize}); ; {
		page, err := client.Resource(configMap.gvr).List(ctx, options)
		if err != nil {
			return 0, err
		}
		n += len(page.Items)
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return n, nil
		}
	}
}

// warmClient returns a client with an open connection.
func warmClient(ctx context.Context, config *rest.Config) (dynamic.Interface, error) {
	if err := warmUp(ctx, config); err != nil {
		return nil, err
	}
	return dynamic.NewForConfig(config)
}

// runWork runs a sub-command that ends when it has done its work.
func runWork(ctx context.Context, what string, args ...string) (done work, err error) {
	c, err := startChild(ctx, what, args...)
	if err != nil {
		return done, err
	}
	err = c.finish(&done)
	return done, err
}
