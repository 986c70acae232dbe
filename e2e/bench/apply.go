package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"
)

// batchOptions are the flags of the benchmarks that work on many VidraResources.
type batchOptions struct {
	resources int
	perOwner  int
	rounds    int
	timeout   time.Duration
}

// bind adds the flags with their defaults.
func (o *batchOptions) bind(fs *flag.FlagSet, resources, perOwner, rounds int) {
	fs.IntVar(&o.resources, "resources", resources, "How many VidraResources there are.")
	fs.IntVar(&o.perOwner, "per-resource", perOwner, "How many ConfigMaps are in each of them.")
	fs.IntVar(&o.rounds, "rounds", rounds, "How often.")
	fs.DurationVar(&o.timeout, "timeout", 10*time.Minute, "How long one round may take.")
}

func (o *batchOptions) check() error {
	return errors.Join(atLeastOne("resources", o.resources), atLeastOne("per-resource", o.perOwner), atLeastOne("rounds", o.rounds))
}

func (o *batchOptions) setup() setup { return setup{} }

// batch returns the objects of a round.
func (o *batchOptions) batch(round int) batch {
	return batch{round: round, sets: o.resources, perSet: o.perOwner}
}

// settings are the sizes as a sentence.
func (o *batchOptions) settings() string {
	return fmt.Sprintf("%d rounds, %d VidraResources with %d ConfigMaps each", o.rounds, o.resources, o.perOwner)
}

// applyOptions are the flags of apply.
type applyOptions struct {
	batchOptions
	// marked is whether the objects of the others have the marks of Vidra.
	marked bool
}

func (o *applyOptions) flags(fs *flag.FlagSet) {
	o.bind(fs, 1_000, 4, 3)
	fs.BoolVar(&o.marked, "marked", false, "The others apply the label and the annotation, too, that Vidra adds to each object. The operator then watches what they apply.")
}

func (o *applyOptions) settings() string {
	if o.marked {
		return o.batchOptions.settings() + ", which all sides apply with the label and the annotation of Vidra"
	}
	return o.batchOptions.settings()
}

// goal is how many times the floor it may take until all VidraResources are ready.
func (o *applyOptions) goal() float64 {
	if o.perOwner < 100 {
		return 3
	}
	return 1.5
}

// measure measures how long it takes from the first VidraResource that is created until all are
// ready, beside the floor: a program that applies as many objects, several at a time, and does
// nothing else. The sides take turns. A small round before does not count: it opens connections and
// starts the watch.
func (o *applyOptions) measure(ctx context.Context, l *lab) (*report, error) {
	first := o.batch(0)
	first.sets = min(first.sets, 5)
	if err := l.rollOut(ctx, first); err != nil {
		return nil, err
	}
	if err := l.awaitQuiet(ctx); err != nil {
		return nil, err
	}
	r := &report{Settings: o.settings(), Environment: l.environment}
	bar := newProgress("apply", o.rounds)
	defer bar.end()
	work := contest{line: "all objects applied", rounds: o.rounds, of: o.resources, per: "VidraResource"}
	for number := range o.rounds {
		b := o.batch(number + 1) // beside those of the rounds before
		vidra := vidraTurn(func(ctx context.Context) error { return l.rollOut(ctx, b) })
		others := b
		others.marked = o.marked
		err := bounded(ctx, o.timeout, func(ctx context.Context) error {
			return l.inTurns(ctx, r, work, number, l.turns(opApply, others, vidra))
		})
		if err != nil {
			return nil, err
		}
		bar.step("round %d of %d", number+1, o.rounds)
	}
	r.sumUp()
	r.Goals = append(r.Goals, goal{"ratio of Vidra", r.ratio(func(name string) bool { return name == work.line }), o.goal()})
	r.Notes = append(r.Notes, fmt.Sprintf("Vidra is done when all VidraResources are ready; the floor sends %d PATCH requests at a time.", parallel))
	return l.withPeer(r), nil
}

// bounded calls do with a timeout.
func bounded(ctx context.Context, timeout time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return do(ctx)
}
