package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// cpuSuffix is how the names of lines with CPU times end.
const cpuSuffix = ", CPU time of all processes"

// contest is work that all sides do in each round, one after the other.
type contest struct {
	// line is the name of the work in the report.
	line   string
	rounds int
	// of is how many things of the kind per there are in a round. The requests are counted for each.
	of  int
	per string
}

// turn is what one side does in a round.
type turn struct {
	side string
	// do does the work and returns how many seconds it took. If the side is a child, which is gone
	// afterwards, do adds what that took to the cost of the side.
	do func(ctx context.Context, c *cost) (seconds float64, err error)
}

// inTurns has the sides work one after the other in a round, from 0 on, and notes how long each took.
// Another side begins in each round.
func (l *lab) inTurns(ctx context.Context, r *report, work contest, round int, turns []turn) error {
	for i := range turns {
		t := turns[(round+i)%len(turns)]
		if err := l.takeTurn(ctx, r, work, round, t); err != nil {
			return fmt.Errorf("round %d of %d: %s: %w", round+1, work.rounds, t.side, err)
		}
	}
	return nil
}

// takeTurn has one side work. In the last round, profiles of Vidra are written if there are to be some.
func (l *lab) takeTurn(ctx context.Context, r *report, work contest, round int, t turn) error {
	c := r.cost(t.side)
	mark, taken, child, used := l.env.AuditMark(), l.readCPU(), c.Usage.CPU, usage{}
	if t.side == vidraSide {
		used = readUsage(l.operator.PID)
	}
	seconds := 0.0
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		seconds, err = t.do(groupCtx, c)
		return err
	})
	if t.side == vidraSide && round == work.rounds-1 {
		group.Go(func() error { return l.writeProfiles(groupCtx) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	cpu := cpuTimes{sideProcess: c.Usage.CPU - child}
	if t.side == vidraSide {
		if err := l.awaitQuiet(ctx); err != nil { // Events may be written later
			return err
		}
		c.Usage.add(readUsage(l.operator.PID).since(used))
		cpu = nil
	}
	cpu = l.readCPU().since(taken).plus(cpu)
	audited, err := l.env.AuditSince(mark)
	if err != nil {
		return err
	}
	c.Requests.add(countRequests(audited, users[t.side]))
	c.CPU = c.CPU.plus(cpu)
	c.Of, c.Per = c.Of+work.of, work.per
	r.add(work.line, "s", t.side, seconds)
	if total := cpu.total(); total > 0 {
		r.add(work.line+cpuSuffix, "s", t.side, total)
	}
	if t.side != vidraSide || round != work.rounds-1 {
		return nil
	}
	return l.writeHeap(ctx)
}

// users are who the sides are for the API server.
var users = map[string]string{floorSide: floorUser, vidraSide: operatorUser, fluxSide: fluxUser}

// vidraTurn is a turn of Vidra: what the benchmark does, and waits for.
func vidraTurn(do func(context.Context) error) turn {
	return turn{vidraSide, func(ctx context.Context, _ *cost) (float64, error) {
		began := time.Now()
		err := do(ctx)
		return time.Since(began).Seconds(), err
	}}
}

// floorTurn is a turn of the floor.
func (l *lab) floorTurn(op string, b batch) turn {
	return l.childTurn(floorSide, applierCommand, floorNamespace, op, b)
}

// fluxTurn is a turn of the peer.
func (l *lab) fluxTurn(op string, b batch) turn {
	return l.childTurn(fluxSide, fluxCommand, fluxNamespace, op, b)
}

// turns are those of all sides for the same work.
func (l *lab) turns(op string, b batch, vidra turn) []turn {
	turns := []turn{l.floorTurn(op, b), vidra}
	if l.peer {
		turns = append(turns, l.fluxTurn(op, b))
	}
	return turns
}

// prepare has each side apply a batch, which is not measured.
func (l *lab) prepare(ctx context.Context, b batch, timeout time.Duration) error {
	apply := vidraTurn(func(ctx context.Context) error { return errors.Join(l.rollOut(ctx, b), l.awaitQuiet(ctx)) })
	return bounded(ctx, timeout, func(ctx context.Context) error {
		for _, t := range l.turns(opApply, b, apply) {
			if _, err := t.do(ctx, &cost{}); err != nil {
				return fmt.Errorf("%s: %w", t.side, err)
			}
		}
		return nil
	})
}

// withPeer adds what has to be known of the peer, if it was measured.
func (l *lab) withPeer(r *report) *report {
	if l.peer {
		r.Notes = append(r.Notes, fluxNote(false))
	}
	return r
}

// childTurn is a turn of a side that is a process which ends.
func (l *lab) childTurn(side, command, namespace, op string, b batch) turn {
	return turn{side, func(ctx context.Context, c *cost) (float64, error) {
		args := []string{command, "-kubeconfig", l.kubeconfigs[namespace], "-namespace", namespace, "-op", op}
		done, err := runWork(ctx, side, append(args, b.args()...)...)
		c.Usage.add(done.Usage)
		return done.Seconds, err
	}}
}
