package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"
)

// The lines of steady.
const (
	restRequests  = "requests at rest"
	restCPU       = "CPU time at rest"
	restMemory    = "memory at rest"
	compareCPU    = "CPU time to compare all objects once"
	compareNumber = "requests to compare all objects once"
)

// steadyOptions are the flags of steady.
type steadyOptions struct {
	batchOptions
	window, backstop time.Duration
}

func (o *steadyOptions) flags(fs *flag.FlagSet) {
	o.bind(fs, 20, 100, 3)
	fs.DurationVar(&o.window, "for", 20*time.Second, "How long one round lasts, in which nothing is done.")
	fs.DurationVar(&o.backstop, "backstop", 20*time.Second,
		"The --backstop-interval at which the requests of the backstop are counted, once for all objects; 0 to leave that out.")
}

func (o *steadyOptions) check() error {
	if o.window <= 0 || o.backstop < 0 {
		return fmt.Errorf("-for is %s and -backstop is %s: a positive duration is needed", o.window, o.backstop)
	}
	return o.batchOptions.check()
}

// setup has the backstop at its default, which testenv turns off.
func (o *steadyOptions) setup() setup { return setup{args: []string{"--backstop-interval=1h"}} }

// measure measures what the operator takes while nothing changes, beside a process with a plain
// informer for the same objects. Then it counts what a comparison of all objects with the API server takes.
func (o *steadyOptions) measure(ctx context.Context, l *lab) (_ *report, err error) {
	b := o.batch(6000) // no round of apply
	if err := l.prepare(ctx, b, o.timeout); err != nil {
		return nil, err
	}
	objects, err := l.managedObjects(ctx)
	if err != nil {
		return nil, err
	}
	informer, err := startObserver(ctx, ways[0].name, l.kubeconfigs[floorNamespace], objects)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, informer.stop()) }()
	r := &report{Settings: fmt.Sprintf("%s, rounds of %s", o.settings(), o.window), Environment: l.environment}
	bar := newProgress("steady", o.rounds)
	defer bar.end()
	for number := range o.rounds {
		if err := o.rest(ctx, l, r, informer.cmd.Process.Pid); err != nil {
			return nil, err
		}
		bar.step("round %d of %d", number+1, o.rounds)
	}
	if o.backstop > 0 {
		if err := o.compare(ctx, l, r, b); err != nil {
			return nil, err
		}
	}
	r.sumUp()
	r.Notes = append(r.Notes, "At rest, the floor is a process with a plain informer of client-go for the same objects.",
		"A comparison of all objects is the backstop of Vidra, which lists them in pages once in --backstop-interval (an hour by default), and one call of the "+
			"peer for each set, which comes once in spec.interval. After a start, Vidra also verifies one object a second, by a GET and a dry run.")
	r.memoryGoal(readUsage(l.operator.PID), b.objects())
	return l.withPeer(r), nil
}

// rest measures one round.
func (o *steadyOptions) rest(ctx context.Context, l *lab, r *report, informer int) error {
	pids := map[string]int{floorSide: informer, vidraSide: l.operator.PID}
	mark, began, before := l.env.AuditMark(), time.Now(), map[string]usage{}
	for side, pid := range pids {
		before[side] = readUsage(pid)
	}
	if err := sleep(ctx, o.window); err != nil {
		return err
	}
	took := time.Since(began)
	audited, err := l.env.AuditSince(mark)
	if err != nil {
		return err
	}
	for side, pid := range pids {
		used, sent := readUsage(pid), countRequests(audited, users[side])
		r.add(restRequests, "/min", side, float64(sent.total())/took.Minutes())
		r.add(restCPU, "ms/s", side, 1000*(used.CPU-before[side].CPU)/took.Seconds())
		r.add(restMemory, "MiB", side, mib(used.Resident))
		c := r.cost(side)
		c.Usage.add(used.since(before[side]))
		c.Requests.add(sent)
		c.Of, c.Per = c.Of+1, "round"
	}
	return nil
}

// compare counts what a comparison of all objects takes: the operator is started with a short interval
// for it, and one such interval is counted, less what is sent at rest.
func (o *steadyOptions) compare(ctx context.Context, l *lab, r *report, b batch) error {
	if err := l.operator.Stop(time.Minute); err != nil {
		return err
	}
	if err := l.startOperator(ctx, "--backstop-interval="+o.backstop.String()); err != nil {
		return err
	}
	if err := sleep(ctx, o.backstop); err != nil { // the first comparisons are spread over it
		return err
	}
	mark, used := l.env.AuditMark(), readUsage(l.operator.PID)
	if err := sleep(ctx, o.backstop); err != nil {
		return err
	}
	audited, err := l.env.AuditSince(mark)
	if err != nil {
		return err
	}
	sent := countRequests(audited, operatorUser)
	r.add(compareNumber, "", vidraSide, float64(sent.total()))
	r.add(compareCPU, "s", vidraSide, readUsage(l.operator.PID).since(used).CPU)
	if !l.peer {
		return nil
	}
	mark = l.env.AuditMark()
	c := &cost{}
	if _, err := l.fluxTurn(opApply, b).do(ctx, c); err != nil {
		return err
	}
	if audited, err = l.env.AuditSince(mark); err != nil {
		return err
	}
	sent = countRequests(audited, fluxUser)
	r.add(compareNumber, "", fluxSide, float64(sent.total()))
	r.add(compareCPU, "s", fluxSide, c.Usage.CPU)
	return nil
}
