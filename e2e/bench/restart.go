package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// quiet is how long the operator must send nothing until it counts as done.
const quiet = 3 * time.Second

// restartOptions are the flags of restart.
type restartOptions struct {
	applyOptions
	edited int
}

func (o *restartOptions) parse(args []string) error {
	fs := flag.NewFlagSet("restart", flag.ContinueOnError)
	fs.IntVar(&o.resources, "resources", 100, "How many VidraResources there are.")
	fs.IntVar(&o.perOwner, "per-resource", 100, "How many ConfigMaps are in each of them.")
	fs.IntVar(&o.edited, "edited", 100, "How many objects are edited while the operator is stopped.")
	fs.DurationVar(&o.timeout, "timeout", 10*time.Minute, "How long the rollout may take, and the restart.")
	if err := o.labOptions.parse(fs, args); err != nil {
		return err
	}
	if o.edited < 0 || o.edited > o.resources*o.perOwner {
		return fmt.Errorf("-edited is %d: it can be from 0 to the %d objects that there are", o.edited, o.resources*o.perOwner)
	}
	return errors.Join(atLeastOne("resources", o.resources), atLeastOne("per-resource", o.perOwner))
}

// runRestart measures a restart of the operator: the time until it is ready and until the edits
// are reverted that were made while it was stopped, and which requests it sends. The floor is one
// LIST of the objects.
func runRestart(ctx context.Context, args []string) error {
	var o restartOptions
	if err := o.parse(args); err != nil {
		return err
	}
	return o.run(ctx, newLab, func(l *lab) (report, error) { return restart(ctx, l, o) })
}

// restart rolls out, stops the operator, edits, and starts it again.
func restart(ctx context.Context, l *lab, o restartOptions) (*restartReport, error) {
	const round = 1000 // no round of apply
	ctx, cancel := context.WithTimeout(ctx, 2*o.timeout)
	defer cancel()
	rolledOut, err := l.rollOut(ctx, o.applyOptions, round)
	if err != nil {
		return nil, err
	}
	_, _ = fmt.Fprintf(os.Stderr, "rolled out in %.1f s\n", rolledOut)
	if err := l.awaitQuiet(ctx); err != nil {
		return nil, err
	}
	r := &restartReport{
		Environment: environment{Kubernetes: l.kubernetes, CPUs: runtime.NumCPU()},
		Resources:   o.resources, PerResource: o.perOwner, Edited: o.edited, Before: readUsage(l.operator.PID),
	}
	if err := l.operator.Stop(time.Minute); err != nil {
		return nil, err
	}
	objects, err := l.managedObjects(ctx)
	if err != nil {
		return nil, err
	}
	if err := l.editObjects(ctx, o.edited, round); err != nil {
		return nil, err
	}
	r.List, err = runTimed(ctx, "the floor", listerCommand, "-kubeconfig", l.floorConfig,
		"-selector", v1alpha1.ManagedByLabel+"="+v1alpha1.ManagedByValue, "-objects", strconv.Itoa(objects))
	if err != nil {
		return nil, err
	}
	mark, began := l.env.AuditMark(), time.Now()
	if err := l.startOperator(ctx); err != nil {
		return nil, err
	}
	r.Ready = time.Since(began).Seconds()
	if err := l.awaitReverted(ctx, o.edited, round); err != nil {
		return nil, fmt.Errorf("%w; see %s", err, l.operator.Log)
	}
	r.Reverted = time.Since(began).Seconds()
	if err := l.awaitQuiet(ctx); err != nil {
		return nil, err
	}
	audited, err := l.env.AuditSince(mark)
	if err != nil {
		return nil, err
	}
	r.After, r.Requests = readUsage(l.operator.PID), countRequests(audited)
	return r, nil
}

// managedObjects counts the ConfigMaps that Vidra manages.
func (l *lab) managedObjects(ctx context.Context) (int, error) {
	found, err := l.dynamic.Resource(configMap.gvr).List(ctx, metav1.ListOptions{
		LabelSelector: v1alpha1.ManagedByLabel + "=" + v1alpha1.ManagedByValue,
	})
	if err != nil {
		return 0, err
	}
	return len(found.Items), nil
}

// editObjects changes the value of the first n objects of a round.
func (l *lab) editObjects(ctx context.Context, n, round int) error {
	resource := l.dynamic.Resource(configMap.gvr).Namespace(vidraNamespace)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := range n {
		group.Go(func() error {
			_, err := resource.Patch(ctx, fmt.Sprintf("settings-%d-%d", round, i), types.MergePatchType,
				[]byte(`{"data":{"number":"edited"}}`), metav1.PatchOptions{FieldManager: editor})
			return err
		})
	}
	return group.Wait()
}

// awaitReverted returns when the first n objects of a round have their values.
func (l *lab) awaitReverted(ctx context.Context, n, round int) error {
	resource := l.dynamic.Resource(configMap.gvr).Namespace(vidraNamespace)
	for i := range n {
		name, want := fmt.Sprintf("settings-%d-%d", round, i), strconv.Itoa(i)
		for {
			live, err := resource.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("%s is not reverted: %w", name, err)
			}
			if got, _, _ := unstructured.NestedString(live.Object, "data", "number"); got == want {
				break
			}
			if err := sleep(ctx, 10*time.Millisecond); err != nil {
				return fmt.Errorf("%s is not reverted: %w", name, err)
			}
		}
	}
	return nil
}

// awaitQuiet returns when the operator has sent nothing for a while.
func (l *lab) awaitQuiet(ctx context.Context) error {
	for mark, since := l.env.AuditMark(), time.Now(); time.Since(since) < quiet; {
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return fmt.Errorf("the operator goes on sending requests: %w", err)
		}
		audited, err := l.env.AuditSince(mark)
		if err != nil {
			return err
		}
		for _, a := range audited {
			if a.User == operatorUser && a.Verb != "watch" {
				mark, since = l.env.AuditMark(), time.Now()
				break
			}
		}
	}
	return nil
}

// sleep waits, or returns the error of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
