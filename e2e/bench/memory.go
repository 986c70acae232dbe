package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"
)

// memoryGoal is how many bytes of live heap a watched object may take.
const memoryGoal = 512

// memoryOptions are the flags of memory.
type memoryOptions struct {
	objects  int
	perOwner int
	timeout  time.Duration
}

func (o *memoryOptions) flags(fs *flag.FlagSet) {
	fs.IntVar(&o.objects, "objects", 10_000, "How many ConfigMaps are watched.")
	fs.IntVar(&o.perOwner, "per-resource", 100, "How many of them belong to one VidraResource.")
	fs.DurationVar(&o.timeout, "timeout", 10*time.Minute, "How long one way to watch may take for all objects.")
}

func (o *memoryOptions) check() error {
	return errors.Join(atLeastOne("objects", o.objects), atLeastOne("per-resource", o.perOwner))
}

func (o *memoryOptions) setup() setup { return setup{bare: true} }

// measure measures what it takes to watch objects that Vidra applied: the
// memory that is kept, the memory that is needed to begin, and the CPU time of an
// event. Beside Vidra's watch it measures the informers that there are for any
// kind. Each runs in a process of its own, which does nothing else.
func (o *memoryOptions) measure(ctx context.Context, l *lab) (*report, error) {
	p := population{client: l.dynamic, objects: o.objects, perOwner: o.perOwner}
	if err := p.apply(ctx); err != nil {
		return nil, err
	}
	r := &report{
		Settings:    fmt.Sprintf("%d ConfigMaps, %d for each VidraResource", o.objects, o.perOwner),
		Environment: l.environment,
	}
	bar := newProgress("memory", len(ways))
	defer bar.end()
	for _, w := range ways {
		f, err := p.watch(ctx, w.name, l.env.KubeconfigPath, o.timeout)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.name, err)
		}
		f.addTo(r, w.name)
		bar.step("%s", w.name)
	}
	r.sumUp()
	r.Notes = append(r.Notes, "Vidra's live heap holds its index, too.")
	return r, nil
}

// addTo adds the figures of one way to watch.
func (f watchFigures) addTo(r *report, way string) {
	r.add("live heap of an object", "B", way, float64(f.Bytes))
	r.add("live heap of an object that was edited", "B", way, float64(f.BytesEdited))
	r.add("largest heap during the LIST", "MiB", way, mib(f.Peak))
	r.add("all objects seen", "s", way, f.Sync)
	r.add("CPU time of an event", "us", way, f.CPU)
	if way == vidraSide {
		r.Goals = append(r.Goals, goal{"bytes of live heap of an object", float64(max(f.Bytes, f.BytesEdited)), memoryGoal})
	}
	if f.Work > 0 {
		r.Failures = append(r.Failures, fmt.Sprintf("%s found work for %d owners where nothing of theirs was changed", way, f.Work))
	}
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
	if err := p.edit(ctx, way); err != nil {
		return figures, err
	}
	return w.figures()
}
