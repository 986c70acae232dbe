package main

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/reconcile"
)

// sinkFlag is the flag that names the sink of CloudEvents.
const sinkFlag = "cloudevents-sink"

// recorder takes what happened, and writes it somewhere until ctx ends and what it
// had been given is written.
type recorder interface {
	reconcile.Recorder
	Start(ctx context.Context) error
}

// recorders tell each of them everything.
type recorders []recorder

// Record implements reconcile.Recorder.
func (r recorders) Record(all []events.Event) {
	for _, one := range r {
		one.Record(all)
	}
}

// Start runs all of them until ctx ends and each is done.
func (r recorders) Start(ctx context.Context) error {
	var running errgroup.Group
	for _, one := range r {
		running.Go(func() error { return one.Start(ctx) })
	}
	return running.Wait()
}

// cloudEvents makes the recorder that sends CloudEvents to a sink, and none where
// there is no sink.
func cloudEvents(sink string) (recorders, error) {
	if sink == "" {
		return nil, nil
	}
	sending, err := events.NewCloudEvents(events.CloudEventsOptions{
		Sink: sink, UserAgent: userAgent(), Registerer: metrics.Registry, Log: ctrl.Log.WithName("cloudevents"),
	})
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", sinkFlag, err)
	}
	return recorders{sending}, nil
}
