package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"
)

const (
	// editor is the field manager of the edits.
	editor = "kubectl-edit"
	// healGoal is how many times the floor the heal of a changed value may take, and stormGoal
	// while there is a storm.
	healGoal, stormGoal = 1.1, 1.3
	// structuralGoal is how many times the floor of one PATCH the heal of a structural edit
	// may take, which needs two.
	structuralGoal = 2.2
	// stormUpdates is how many updates of a status there are in a second of a storm, by default.
	stormUpdates = 500
	// othersPerSet is how many of the other objects are in a VidraResource.
	othersPerSet = 100
)

// healOptions are the flags of heal and storm.
type healOptions struct {
	rounds  int
	objects int
	// others is how many other objects are watched, and updates how many updates of the status of
	// other objects there are in a second.
	others, updates int
	pause           time.Duration
	// timeout is when an edit is missed, and peerTimeout the same for the peer.
	timeout, peerTimeout time.Duration
}

func (o *healOptions) flags(fs *flag.FlagSet) {
	fs.IntVar(&o.rounds, "rounds", 20, "How often each edit is made on each side.")
	fs.IntVar(&o.objects, "objects", len(kinds), "How many objects are in the VidraResource.")
	fs.IntVar(&o.others, "others", 0, "How many objects of other VidraResources are watched, which nothing changes.")
	fs.IntVar(&o.updates, "updates", o.updates, "How many updates of the status of other objects there are in a second.")
	fs.DurationVar(&o.pause, "pause", 200*time.Millisecond, "How long to wait between two edits.")
	fs.DurationVar(&o.timeout, "timeout", 10*time.Second, "An edit that stands longer than this is missed.")
	fs.DurationVar(&o.peerTimeout, "peer-timeout", 10*time.Second, "The same for the peer, to which such an edit is made once.")
}

func (o *healOptions) check() error {
	switch {
	case o.objects < len(kinds):
		return fmt.Errorf("-objects is %d: at least %d are needed, one of each kind that is edited", o.objects, len(kinds))
	case o.others < 0 || o.others%othersPerSet != 0:
		return fmt.Errorf("-others is %d: it can be a multiple of %d", o.others, othersPerSet)
	case o.updates < 0:
		return fmt.Errorf("-updates is %d: it cannot be negative", o.updates)
	}
	return atLeastOne("rounds", o.rounds)
}

func (o *healOptions) setup() setup { return setup{} }

// measure measures how long an edit stands until Vidra has reverted it, beside
// the floor: the same edit on an object that runFloor keeps, in the same run.
// The sides take turns, and each goes first every other time, so that noise hits
// all alike. Package stopwatch says what is timed.
func (o *healOptions) measure(ctx context.Context, l *lab) (_ *report, err error) {
	if o.others > 0 {
		others := batch{round: 4000, sets: o.others / othersPerSet, perSet: othersPerSet} // no round of apply
		if err := l.rollOut(ctx, others); err != nil {
			return nil, err
		}
	}
	if err := l.applyResource(ctx, resourceName, manifest(vidraNamespace, o.objects), o.objects); err != nil {
		return nil, err
	}
	floor, err := startFloor(ctx, l.kubeconfigs[floorNamespace], floorNamespace)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, floor.stop()) }()
	var peer *fluxLoop
	if l.peer {
		if peer, err = startFluxLoop(ctx, l.kubeconfigs[fluxNamespace], o.objects); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, peer.stop()) }()
	}
	sides, err := newSides(l, floor, peer, o)
	if err != nil {
		return nil, err
	}
	if o.updates == 0 {
		return o.run(ctx, l, sides)
	}
	return o.runInStorm(ctx, l, sides)
}

// runInStorm runs the rounds while the status of other objects is updated all the time.
func (o *healOptions) runInStorm(ctx context.Context, l *lab, sides []*side) (*report, error) {
	if err := l.applyResource(ctx, stormResource, stormManifest(), stormObjects); err != nil {
		return nil, err
	}
	storm, err := l.startStorm(ctx, o.updates)
	if err != nil {
		return nil, err
	}
	r, err := o.run(ctx, l, sides)
	var done stormFigures
	if err := errors.Join(err, storm.finish(&done)); err != nil {
		return nil, err
	}
	r.Settings += fmt.Sprintf(", %d status updates a second asked for and %.0f made", o.updates, done.perSecond())
	r.Notes = append(r.Notes, "The updated objects are Deployments of another VidraResource. The watch of the floor shows them, too.")
	return r, nil
}

// run runs the rounds, after one that does not count: it opens connections and
// fills caches.
func (o *healOptions) run(ctx context.Context, l *lab, sides []*side) (*report, error) {
	bar := newProgress("heal", o.rounds+1)
	defer bar.end()
	r := &report{
		Settings:    fmt.Sprintf("%d rounds, %d objects in the VidraResource, %d others watched", o.rounds, o.objects, o.others),
		Environment: l.environment,
	}
	if err := round(ctx, &report{}, sides, 0, o.pause); err != nil {
		return nil, err
	}
	bar.step("warmed up")
	mark, used := l.env.AuditMark(), []usage{}
	for _, s := range sides {
		used = append(used, readUsage(s.pid))
	}
	for i := range o.rounds {
		if err := round(ctx, r, sides, i, o.pause); err != nil {
			return nil, err
		}
		bar.step("round %d of %d", i+1, o.rounds)
	}
	audited, err := l.env.AuditSince(mark)
	if err != nil {
		return nil, err
	}
	r.sumUp()
	for i, s := range sides {
		c := r.cost(s.name)
		c.Usage, c.Requests = readUsage(s.pid).since(used[i]), countRequests(audited, users[s.name])
		c.Of, c.Per = r.values(s.name), "heal"
	}
	o.judge(r, l.peer)
	return r, nil
}

// judge adds the goals and the notes.
func (o *healOptions) judge(r *report, peer bool) {
	limit := healGoal
	if o.updates > 0 {
		limit = stormGoal
	}
	r.Goals = append(r.Goals,
		goal{"median ratio of the edits of values", r.ratio(func(name string) bool { return !structural(name) }), limit},
		goal{"median ratio of the structural edits, to the floor of one PATCH", r.ratio(structural), structuralGoal})
	r.Notes = append(r.Notes, "The floor gets edits of values in place of structural edits, which it cannot undo.")
	if peer {
		r.Notes = append(r.Notes, fluxNote(true))
	}
}

// round makes every edit once on each side.
func round(ctx context.Context, r *report, sides []*side, number int, pause time.Duration) error {
	for i, e := range edits {
		for turn := range sides {
			s := sides[(number+i+turn)%len(sides)]
			if err := s.lap(ctx, r, e); err != nil {
				return fmt.Errorf("%s: %w", e.name, err)
			}
			if err := sleep(ctx, pause); err != nil {
				return err
			}
		}
	}
	return nil
}
