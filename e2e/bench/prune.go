package main

import (
	"context"
	"flag"
	"fmt"
)

// pruneOptions are the flags of prune.
type pruneOptions struct{ batchOptions }

func (o *pruneOptions) flags(fs *flag.FlagSet) { o.bind(fs, 1_000, 4, 1) }

// measure measures how long it takes from the first VidraResource that is deleted until all of them
// are gone, with all their objects. The floor is a program that deletes as many objects, several at a time.
func (o *pruneOptions) measure(ctx context.Context, l *lab) (*report, error) {
	r := &report{Settings: o.settings(), Environment: l.environment}
	bar := newProgress("prune", o.rounds)
	defer bar.end()
	work := contest{line: "all objects deleted", rounds: o.rounds, of: o.resources, per: "VidraResource"}
	for number := range o.rounds {
		b := o.batch(3000 + number) // no round of apply
		before, err := l.managedObjects(ctx)
		if err != nil {
			return nil, err
		}
		if err := l.prepare(ctx, b, o.timeout); err != nil {
			return nil, err
		}
		remove := vidraTurn(func(ctx context.Context) error { return l.untilGone(ctx, b) })
		err = bounded(ctx, o.timeout, func(ctx context.Context) error {
			return l.inTurns(ctx, r, work, number, l.turns(opDelete, b, remove))
		})
		if err != nil {
			return nil, err
		}
		after, err := l.managedObjects(ctx)
		if err != nil {
			return nil, err
		}
		if after != before {
			r.Failures = append(r.Failures, fmt.Sprintf("%d objects are left", after-before))
		}
		bar.step("round %d of %d", number+1, o.rounds)
	}
	r.sumUp()
	r.Notes = append(r.Notes, fmt.Sprintf("The floor deletes %d objects, %d at a time. Vidra is done when all VidraResources are gone, and with them their objects.",
		o.resources*o.perOwner, parallel))
	return l.withPeer(r), nil
}
