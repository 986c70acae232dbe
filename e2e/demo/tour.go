package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

const (
	// patience bounds the wait for anything that Vidra or the cluster does.
	patience = 60 * time.Second
	// poll is how often the API server is asked what is waited for.
	poll = 20 * time.Millisecond
)

// options of a tour.
type options struct {
	// Config reaches the cluster as a user who may write VidraResources,
	// CustomResourceDefinitions and the objects of the samples. Required.
	Config *rest.Config
	// Samples is config/samples. Required.
	Samples fs.FS
	// Operator says which process the operator is, so that the tour can show
	// that it is the same one all along. An empty answer means that it cannot be
	// known. Defaults to asking for its Pods.
	Operator func(context.Context) (string, error)
	// Print is where the tour goes. Defaults to nowhere.
	Print *printer
	// Patience bounds the wait for a first sign of the operator. Defaults to 15
	// seconds.
	Patience time.Duration
}

// tour is a tour of one cluster. Its methods must not be called concurrently.
type tour struct {
	*printer
	cluster  *cluster
	operator func(context.Context) (string, error)
	// firstSign bounds the wait for a first sign of the operator.
	firstSign time.Duration

	// The samples: two VidraResources, and a third whose kind does not exist
	// until its CustomResourceDefinition is applied.
	web, first, custom *sample
	definition         []*unstructured.Unstructured
	// applied are the samples that Leave has to remove; defined says that the
	// CustomResourceDefinition is another.
	applied []*sample
	defined bool
}

// newTour prepares a tour. It sends no request.
func newTour(o options) (*tour, error) {
	c, err := newCluster(o.Config)
	if err != nil {
		return nil, err
	}
	t := &tour{printer: o.Print, cluster: c, operator: o.Operator, firstSign: cmp.Or(o.Patience, 15*time.Second)}
	if t.printer == nil {
		t.printer = &printer{}
	}
	if t.operator == nil {
		t.operator = c.operatorPods
	}
	return t, t.loadSamples(o.Samples)
}

// Run gives the tour, from the first sample to the clean-up, and blocks until
// its end. An error says what did not happen. Call Leave afterwards.
func (t *tour) Run(ctx context.Context) error {
	if err := t.check(ctx); err != nil {
		return err
	}
	before, err := t.operator(ctx)
	if err != nil {
		return err
	}
	for i, part := range []struct {
		title string
		show  func(context.Context) error
	}{
		{"Two VidraResources are applied", t.showApply},
		{"Four edits, as users make them", t.showEdits},
		{"A kind that did not exist when the operator started", func(ctx context.Context) error { return t.showNewKind(ctx, before) }},
		{"The Events, as kubectl get events shows them", t.showEvents},
		{"The VidraResources, as kubectl get vidraresources shows them", t.showStatus},
		{"The VidraResources are deleted, and all that they applied with them", t.showRemoval},
	} {
		t.Heading(fmt.Sprintf("%d. %s", i+1, part.title))
		if err := part.show(ctx); err != nil {
			return fmt.Errorf("part %d of the tour: %w", i+1, err)
		}
	}
	return nil
}

// Stage applies the samples once more, for a person to try what the tour has
// shown, and waits until they are ready.
func (t *tour) Stage(ctx context.Context) error {
	if err := t.applyDefinition(ctx); err != nil {
		return err
	}
	for _, s := range []*sample{t.web, t.first, t.custom} {
		if err := t.apply(ctx, s); err != nil {
			return err
		}
		if _, err := t.cluster.awaitReady(ctx, s.name); err != nil {
			return err
		}
	}
	return nil
}

// Leave removes what Run and Stage have applied and not removed yet, and waits
// until it is gone.
func (t *tour) Leave(ctx context.Context) error {
	var errs []error
	for _, s := range t.applied {
		errs = append(errs, t.cluster.remove(ctx, s))
	}
	for _, s := range t.applied {
		errs = append(errs, t.cluster.awaitGone(ctx, s))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	t.applied = nil
	return t.removeDefinition(ctx)
}
