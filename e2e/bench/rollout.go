package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

const (
	// roundLabel is a label of the VidraResources of one round, with its number.
	roundLabel = "bench.example.com/round"
	// parallel is how many requests are under way at a time.
	parallel = 32
)

// rollOut creates the VidraResources of a batch and waits until they are ready.
func (l *lab) rollOut(ctx context.Context, b batch) error {
	return l.untilReady(ctx, b, 1, l.create)
}

// create creates a VidraResource.
func (l *lab) create(ctx context.Context, vr *v1alpha1.VidraResource) error {
	return l.client.Create(ctx, vr)
}

// untilReady writes the VidraResources of a batch, several at a time, and returns when all of them
// are ready with a generation.
func (l *lab) untilReady(ctx context.Context, b batch, generation int64, write func(context.Context, *v1alpha1.VidraResource) error) error {
	return l.until(ctx, b, "ready", write, func(event watch.EventType, vr *v1alpha1.VidraResource) bool {
		return event != watch.Deleted && vr.Status.ObservedGeneration == generation && int(vr.Status.Objects) == b.perSet &&
			meta.IsStatusConditionTrue(vr.Status.Conditions, v1alpha1.ConditionReady)
	})
}

// untilGone deletes the VidraResources of a batch, several at a time, and returns when all of them
// are gone.
func (l *lab) untilGone(ctx context.Context, b batch) error {
	remove := func(ctx context.Context, vr *v1alpha1.VidraResource) error { return l.client.Delete(ctx, vr) }
	return l.until(ctx, b, "gone", remove, func(event watch.EventType, _ *v1alpha1.VidraResource) bool { return event == watch.Deleted })
}

// until writes the VidraResources of a batch, several at a time, and returns when a watch that is
// open since before has shown each of them as it is awaited.
func (l *lab) until(ctx context.Context, b batch, what string, write func(context.Context, *v1alpha1.VidraResource) error,
	awaited func(watch.EventType, *v1alpha1.VidraResource) bool,
) error {
	bar := newProgress(what, b.sets)
	defer bar.end()
	group, ctx := errgroup.WithContext(ctx)
	events, err := l.watchResources(ctx, b)
	if err != nil {
		return err
	}
	group.Go(func() error { return l.eachResource(ctx, b, write) })
	group.Go(func() error {
		shown := map[string]bool{}
		for len(shown) < b.sets {
			readEvents(events, func(event watch.EventType, vr *v1alpha1.VidraResource) bool {
				if !shown[vr.Name] && awaited(event, vr) {
					shown[vr.Name] = true
					bar.step("")
				}
				return len(shown) < b.sets
			})
			if len(shown) == b.sets {
				break
			}
			err := ctx.Err()
			if err == nil {
				events, err = l.watchResources(ctx, b) // it has ended
			}
			if err == nil {
				err = l.eachMissing(ctx, b, func(name string) {
					if !shown[name] && awaited(watch.Deleted, nil) { // between the two watches
						shown[name] = true
						bar.step("")
					}
				})
			}
			if err != nil {
				return fmt.Errorf("%d of %d VidraResources are %s: %w; see %s", len(shown), b.sets, what, err, l.operator.Log)
			}
		}
		return nil
	})
	return group.Wait()
}

// watchResources watches the VidraResources of a batch. The watch begins with those that exist.
func (l *lab) watchResources(ctx context.Context, b batch) (watch.Interface, error) {
	return l.client.Watch(ctx, &v1alpha1.VidraResourceList{}, client.MatchingLabels{roundLabel: strconv.Itoa(b.round)})
}

// eachMissing calls missing for each VidraResource of a batch that does not exist.
func (l *lab) eachMissing(ctx context.Context, b batch, missing func(name string)) error {
	var existing v1alpha1.VidraResourceList
	if err := l.client.List(ctx, &existing, client.MatchingLabels{roundLabel: strconv.Itoa(b.round)}); err != nil {
		return err
	}
	for i := range b.sets {
		name := b.resource(i)
		if !slices.ContainsFunc(existing.Items, func(vr v1alpha1.VidraResource) bool { return vr.Name == name }) {
			missing(name)
		}
	}
	return nil
}

// readEvents reads the events of a watch until it ends, or read returns false.
func readEvents(events watch.Interface, read func(watch.EventType, *v1alpha1.VidraResource) bool) {
	defer events.Stop()
	for event := range events.ResultChan() {
		if vr, is := event.Object.(*v1alpha1.VidraResource); !is || !read(event.Type, vr) {
			return
		}
	}
}

// eachResource does something with each VidraResource of a batch, several at a time.
func (l *lab) eachResource(ctx context.Context, b batch, do func(context.Context, *v1alpha1.VidraResource) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := range b.sets {
		group.Go(func() error {
			return do(ctx, &v1alpha1.VidraResource{
				ObjectMeta: metav1.ObjectMeta{Name: b.resource(i), Labels: map[string]string{roundLabel: strconv.Itoa(b.round)}},
				Spec: v1alpha1.VidraResourceSpec{
					Manifest:    b.set(cmp.Or(b.namespace, vidraNamespace), i),
					Destination: v1alpha1.Destination{Server: b.server, Namespace: b.namespace},
				},
			})
		})
	}
	return group.Wait()
}

// awaitQuiet returns when the operator has sent nothing for a while.
func (l *lab) awaitQuiet(ctx context.Context) error {
	for mark, since := l.env.AuditMark(), time.Now(); time.Since(since) < l.quiet; {
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
