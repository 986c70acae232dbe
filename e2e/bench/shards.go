package main

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

const (
	// shardLabel is the label by which the benchmark divides the VidraResources; the values are numbers.
	shardLabel = "sharding.fluxcd.io/key"
	// oneSide is an operator without shards.
	oneSide = "one operator"
)

// shardsOptions are the flags of shards.
type shardsOptions struct {
	batchOptions
	shards int
}

func (o *shardsOptions) flags(fs *flag.FlagSet) {
	o.bind(fs, 300, 100, 1)
	fs.IntVar(&o.shards, "shards", 3, "How many operators share the VidraResources.")
}

func (o *shardsOptions) check() error {
	if err := atLeastOne("shards", o.shards); err != nil {
		return err
	}
	return o.batchOptions.check()
}

// measure measures what one operator and several shards take for the same VidraResources: the time until all of
// them are ready, and the memory of each process then.
func (o *shardsOptions) measure(ctx context.Context, l *lab) (*report, error) {
	r := &report{
		Settings: o.settings() + fmt.Sprintf(", %d shards", o.shards), Environment: l.environment,
		Notes: []string{"The memory is that of the largest of the processes. One machine runs all of them and the API server, so the shards do not make it faster."},
	}
	sharded := fmt.Sprintf("each of %d shards", o.shards)
	bar := newProgress("shards", 2*o.rounds)
	defer bar.end()
	for number := range o.rounds {
		for i, side := range []string{oneSide, sharded} {
			b := o.batch(6000 + 2*number + i) // no round of the others
			err := bounded(ctx, o.timeout, func(ctx context.Context) error { return o.measureSide(ctx, l, r, side, b) })
			if err != nil {
				return nil, err
			}
			bar.step("%s, round %d of %d", side, number+1, o.rounds)
		}
	}
	r.sumUp()
	return r, nil
}

// measureSide measures one side with operators that have done nothing before, and removes what it made.
func (o *shardsOptions) measureSide(ctx context.Context, l *lab, r *report, side string, b batch) error {
	if err := l.operator.Stop(time.Minute); err != nil {
		return err
	}
	operators := []*testenv.Operator{}
	for i := range o.shards {
		args := []string{"--watch-label-selector=" + shardLabel + "=" + strconv.Itoa(i)}
		if side == oneSide {
			args = nil
		}
		if err := l.startOperator(ctx, args...); err != nil {
			return err
		}
		if operators = append(operators, l.operator); side == oneSide {
			break
		}
	}
	var made atomic.Int64
	began := time.Now()
	err := l.untilReady(ctx, b, 1, func(ctx context.Context, vr *v1alpha1.VidraResource) error {
		vr.Labels[shardLabel] = strconv.Itoa(int(made.Add(1)) % o.shards)
		return l.create(ctx, vr)
	})
	if err != nil {
		return err
	}
	r.add("all VidraResources ready", "s", side, time.Since(began).Seconds())
	if err := l.awaitQuiet(ctx); err != nil {
		return err
	}
	var resident, peak, cpu float64
	for _, operator := range operators {
		u := readUsage(operator.PID)
		resident, peak, cpu = max(resident, mib(u.Resident)), max(peak, mib(u.Peak)), cpu+u.CPU
	}
	r.add("memory of a process, at rest", "MiB", side, resident)
	r.add("memory of a process, at most", "MiB", side, peak)
	r.add("CPU time of all processes", "s", side, cpu)
	if err := l.untilGone(ctx, b); err != nil {
		return err
	}
	for _, operator := range operators[1:] {
		if err := operator.Stop(time.Minute); err != nil {
			return err
		}
	}
	l.operator = operators[0]
	return nil
}
