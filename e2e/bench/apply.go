package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// roundLabel is a label of the VidraResources of one round, with its number.
const roundLabel = "bench.example.com/round"

// applyOptions are the flags of apply.
type applyOptions struct {
	resources int
	perOwner  int
	rounds    int
	timeout   time.Duration
	labOptions
}

func (o *applyOptions) parse(args []string) error {
	fs := flag.NewFlagSet("apply", flag.ContinueOnError)
	fs.IntVar(&o.resources, "resources", 1_000, "How many VidraResources are created at once.")
	fs.IntVar(&o.perOwner, "per-resource", 4, "How many ConfigMaps are in each of them.")
	fs.IntVar(&o.rounds, "rounds", 3, "How often, each time with other objects beside those of the rounds before.")
	fs.DurationVar(&o.timeout, "timeout", 10*time.Minute, "How long one round may take.")
	if err := o.labOptions.parse(fs, args); err != nil {
		return err
	}
	return errors.Join(atLeastOne("resources", o.resources), atLeastOne("per-resource", o.perOwner),
		atLeastOne("rounds", o.rounds))
}

// runApply measures how long it takes from the first VidraResource that is created until all are
// ready, beside the floor: a program that applies as many objects, several at a time, and does
// nothing else. The two take turns.
func runApply(ctx context.Context, args []string) error {
	var o applyOptions
	if err := o.parse(args); err != nil {
		return err
	}
	return o.run(ctx, newLab, func(l *lab) (report, error) { return apply(ctx, l, o) })
}

// apply runs the rounds, after a small one that does not count: it opens connections and starts
// the watch.
func apply(ctx context.Context, l *lab, o applyOptions) (*applyReport, error) {
	warmUp := o
	warmUp.resources = min(o.resources, 5)
	if _, err := l.applyRound(ctx, warmUp, 0); err != nil {
		return nil, err
	}
	r := &applyReport{
		Environment: environment{Kubernetes: l.kubernetes, CPUs: runtime.NumCPU()},
		Resources:   o.resources, PerResource: o.perOwner, Goal: applyGoal,
	}
	mark, used := l.env.AuditMark(), readUsage(l.operator.PID)
	for number := 1; number <= o.rounds; number++ {
		round, err := l.applyRound(ctx, o, number)
		if err != nil {
			return nil, err
		}
		_, _ = fmt.Fprintf(os.Stderr, "round %d of %d: floor %.1f s, Vidra %.1f s\n", number, o.rounds, round.Floor, round.Vidra)
		r.Rounds = append(r.Rounds, round)
	}
	audited, err := l.env.AuditSince(mark)
	if err != nil {
		return nil, err
	}
	r.Usage = readUsage(l.operator.PID).since(used)
	r.Requests = countRequests(audited)
	r.sumUp()
	return r, nil
}

// applyRound runs the floor, and then rolls out as many objects.
func (l *lab) applyRound(ctx context.Context, o applyOptions, number int) (round applyRound, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	round.Floor, err = runTimed(ctx, "the floor", applierCommand, "-kubeconfig", l.floorConfig, "-namespace", floorNamespace,
		"-round", strconv.Itoa(number), "-objects", strconv.Itoa(o.resources*o.perOwner))
	if err == nil {
		round.Vidra, err = l.rollOut(ctx, o, number)
	}
	return round, err
}

// rollOut creates VidraResources and waits until they are ready. It returns how many seconds that
// takes.
func (l *lab) rollOut(ctx context.Context, o applyOptions, number int) (seconds float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	began := time.Now()
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return l.awaitReady(groupCtx, o, number) })
	group.Go(func() error { return l.createResources(groupCtx, o, number) })
	if err := group.Wait(); err != nil {
		return 0, fmt.Errorf("round %d: %w; see %s", number, err, l.operator.Log)
	}
	return time.Since(began).Seconds(), nil
}

// createResources creates the VidraResources of a round, several at a time.
func (l *lab) createResources(ctx context.Context, o applyOptions, number int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := range o.resources {
		group.Go(func() error {
			var docs []string
			for k := range o.perOwner {
				docs = append(docs, configMapText(vidraNamespace, number, i*o.perOwner+k))
			}
			return l.client.Create(ctx, &v1alpha1.VidraResource{
				ObjectMeta: metav1.ObjectMeta{
					Name:   fmt.Sprintf("bench-%d-%d", number, i),
					Labels: map[string]string{roundLabel: strconv.Itoa(number)},
				},
				Spec: v1alpha1.VidraResourceSpec{Manifest: strings.Join(docs, "---\n")},
			})
		})
	}
	return group.Wait()
}

// configMapText is the manifest of one ConfigMap.
func configMapText(namespace string, round, number int) string {
	return fmt.Sprintf(`apiVersion: v1
kind: ConfigMap
metadata:
  name: settings-%d-%d
  namespace: %s
data:
  number: "%[2]d"
`, round, number, namespace)
}

// awaitReady returns when all VidraResources of a round are ready.
func (l *lab) awaitReady(ctx context.Context, o applyOptions, number int) error {
	ready := map[string]bool{}
	for len(ready) < o.resources {
		events, err := l.client.Watch(ctx, &v1alpha1.VidraResourceList{}, client.MatchingLabels{roundLabel: strconv.Itoa(number)})
		if err == nil {
			err = watchReady(ctx, events, o, ready)
		}
		if err != nil {
			return fmt.Errorf("%d of %d VidraResources are ready: %w", len(ready), o.resources, err)
		}
	}
	return nil
}

// watchReady notes which VidraResources are ready, until all are or the watch ends.
func watchReady(ctx context.Context, events watch.Interface, o applyOptions, ready map[string]bool) error {
	defer events.Stop()
	for event := range events.ResultChan() {
		vr, is := event.Object.(*v1alpha1.VidraResource)
		if !is {
			break // the watch starts again
		}
		if int(vr.Status.Objects) == o.perOwner && meta.IsStatusConditionTrue(vr.Status.Conditions, v1alpha1.ConditionReady) {
			ready[vr.Name] = true
		}
		if len(ready) == o.resources {
			break
		}
	}
	return ctx.Err()
}
