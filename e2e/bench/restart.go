package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// The lines of restart.
const (
	readyLine    = "ready, all objects as applied"
	damagedLine  = "ready, some objects damaged"
	revertedLine = "all damage reverted"
)

// restartOptions are the flags of restart.
type restartOptions struct {
	batchOptions
	damaged int
}

func (o *restartOptions) flags(fs *flag.FlagSet) {
	o.bind(fs, 100, 100, 3)
	fs.IntVar(&o.damaged, "damaged", 100, "How many objects are edited or deleted while the operator is stopped, in the second restart of a round.")
}

func (o *restartOptions) check() error {
	if o.damaged < 0 || o.damaged > o.resources*o.perOwner {
		return fmt.Errorf("-damaged is %d: it can be from 0 to the %d objects that there are", o.damaged, o.resources*o.perOwner)
	}
	return o.batchOptions.check()
}

// measure measures restarts of the operator: the time until it is ready and until the damage is
// reverted that was done while it was stopped, and which requests it sends. A round is a restart
// with all objects as they were applied, and one with some damaged. The floor is one LIST of the objects.
func (o *restartOptions) measure(ctx context.Context, l *lab) (*report, error) {
	b := o.batch(1000) // no round of apply
	if err := bounded(ctx, o.timeout, func(ctx context.Context) error {
		return errors.Join(l.rollOut(ctx, b), l.awaitQuiet(ctx))
	}); err != nil {
		return nil, err
	}
	r := &report{
		Settings:    fmt.Sprintf("%s, %d damaged", o.settings(), o.damaged),
		Environment: l.environment,
	}
	before := readUsage(l.operator.PID)
	bar := newProgress("restart", 2*o.rounds)
	defer bar.end()
	for number := range o.rounds {
		for _, damaged := range []int{0, o.damaged} {
			err := bounded(ctx, o.timeout, func(ctx context.Context) error { return l.restart(ctx, r, b, damaged) })
			if err != nil {
				return nil, fmt.Errorf("round %d: %w", number+1, err)
			}
			bar.step("round %d of %d, %d damaged", number+1, o.rounds, damaged)
		}
	}
	r.sumUp()
	r.Notes = append(r.Notes,
		"The floor is one LIST of all objects in pages. Vidra's times begin with the start of the process.",
		fmt.Sprintf("Before the restarts, the operator has %.0f MiB of memory, %.0f MiB at most.", mib(before.Resident), mib(before.Peak)))
	r.Goals = append(r.Goals, goal{"ratio of ready, all objects as applied", r.ratio(func(name string) bool { return name == readyLine }), 2})
	r.memoryGoal(before, b.objects())
	return r, nil
}

// memoryGoal adds the goal for the resident memory of an operator with so many objects.
func (r *report) memoryGoal(u usage, objects int) {
	switch {
	case objects <= 10_000:
		r.Goals = append(r.Goals, goal{"MiB of memory with up to 10,000 objects", round2(mib(u.Resident)), 90})
	case objects <= 100_000:
		r.Goals = append(r.Goals, goal{"MiB of memory with up to 100,000 objects", round2(mib(u.Resident)), 300})
	}
}

// restart stops the operator, damages objects, and starts it again.
func (l *lab) restart(ctx context.Context, r *report, b batch, damaged int) error {
	if err := l.operator.Stop(time.Minute); err != nil {
		return err
	}
	objects, err := l.managedObjects(ctx)
	if err != nil {
		return err
	}
	if err := l.damage(ctx, b, damaged); err != nil {
		return err
	}
	list, err := runWork(ctx, "the floor", listerCommand, "-kubeconfig", l.kubeconfigs[floorNamespace],
		"-selector", managedSelector, "-objects", strconv.Itoa(objects-damaged/2))
	if err != nil {
		return err
	}
	mark, began := l.env.AuditMark(), time.Now()
	if err := l.startOperator(ctx); err != nil {
		return err
	}
	line := readyLine
	if damaged > 0 {
		line = damagedLine
	}
	r.add(line, "s", floorSide, list.Seconds)
	r.add(line, "s", vidraSide, time.Since(began).Seconds())
	if damaged > 0 {
		if err := l.awaitReverted(ctx, b, damaged); err != nil {
			return fmt.Errorf("%w; see %s", err, l.operator.Log)
		}
		r.add(revertedLine, "s", floorSide, list.Seconds)
		r.add(revertedLine, "s", vidraSide, time.Since(began).Seconds())
	}
	if err := l.awaitQuiet(ctx); err != nil {
		return err
	}
	audited, err := l.env.AuditSince(mark)
	if err != nil {
		return err
	}
	sent := countRequests(audited, operatorUser)
	if sent.Patch > damaged {
		r.Failures = append(r.Failures, fmt.Sprintf("the operator sent %d PATCH requests for %d damaged objects after a restart", sent.Patch, damaged))
	}
	r.cost(floorSide).Usage.add(list.Usage)
	c := r.cost(vidraSide)
	c.Usage.add(readUsage(l.operator.PID))
	c.Requests.add(sent)
	c.Of++
	c.Per = "restart"
	return nil
}

// managedObjects counts the ConfigMaps that Vidra manages.
func (l *lab) managedObjects(ctx context.Context) (int, error) {
	return countConfigMaps(ctx, l.dynamic, managedSelector)
}

// damage deletes every second of the first n objects of a batch, and edits the others.
func (l *lab) damage(ctx context.Context, b batch, n int) error {
	resource := l.dynamic.Resource(configMap.gvr).Namespace(vidraNamespace)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := range n {
		group.Go(func() error {
			if i%2 == 1 {
				return resource.Delete(ctx, b.name(i), metav1.DeleteOptions{})
			}
			_, err := resource.Patch(ctx, b.name(i), types.MergePatchType, []byte(`{"data":{"number":"edited"}}`),
				metav1.PatchOptions{FieldManager: editor})
			return err
		})
	}
	return group.Wait()
}

// awaitReverted returns when the first n objects of a batch have their values.
func (l *lab) awaitReverted(ctx context.Context, b batch, n int) error {
	resource := l.dynamic.Resource(configMap.gvr).Namespace(vidraNamespace)
	for i := range n {
		for {
			live, err := resource.Get(ctx, b.name(i), metav1.GetOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("%s is not reverted: %w", b.name(i), err)
			}
			if err == nil {
				if got, _, _ := unstructured.NestedString(live.Object, "data", "number"); got == b.number(i) {
					break
				}
			}
			if err := sleep(ctx, 10*time.Millisecond); err != nil {
				return fmt.Errorf("%s is not reverted: %w", b.name(i), err)
			}
		}
	}
	return nil
}
