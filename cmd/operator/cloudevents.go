package main

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/events/cloudevents"
	"github.com/vidra-operator/vidra/pkg/reconcile"
)

// sinkFlag is the flag that names the sink of CloudEvents, and sinkHeadersFlag the flag that names the file with headers for
// it.
const (
	sinkFlag        = "cloudevents-sink"
	sinkHeadersFlag = "cloudevents-headers-file"
)

// sink receives Events and writes them until ctx ends and every Event that it received is
// written.
type sink interface {
	reconcile.Recorder
	Start(ctx context.Context) error
}

// sinks passes every Event to each of its sinks.
type sinks []sink

// Record implements reconcile.Recorder.
func (s sinks) Record(all []events.Event) {
	for _, one := range s {
		one.Record(all)
	}
}

// Start runs the sinks until ctx ends and each has finished.
func (s sinks) Start(ctx context.Context) error {
	var running errgroup.Group
	for _, one := range s {
		running.Go(func() error { return one.Start(ctx) })
	}
	return running.Wait()
}

// cloudEventsSink returns the sink that sends CloudEvents to a URL, and none for an empty URL.
func (o *options) cloudEventsSink() (sinks, error) {
	switch {
	case o.sink == "" && o.sinkHeaders != "":
		return nil, fmt.Errorf("%s: it has no effect without --%s", o.origins.Name(sinkHeadersFlag), sinkFlag)
	case o.sink == "":
		return nil, nil
	}
	cloudEvents, err := cloudevents.New(cloudevents.Options{
		URL: o.sink, HeadersFile: o.sinkHeaders, UserAgent: userAgent(), Registerer: metrics.Registry, Log: ctrl.Log.WithName("cloudevents"),
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.origins.Name(sinkFlag), err)
	}
	return sinks{cloudEvents}, nil
}
