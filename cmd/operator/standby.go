package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// standbyOwner owns the watches of a standby replica. No VidraResource has its name.
var standbyOwner = watchregistry.Owner{Name: "_standby"}

const (
	// askAgain is how long a standby does not ask again for a kind: many objects may be of it. While the API server does not answer, it asks less and less
	// often, down to askRarely.
	askAgain, askRarely = 10 * time.Second, time.Minute
	// maxAsked bounds the kinds that are remembered for that. Statuses may name any kinds.
	maxAsked = 1000
)

// standby watches, while another replica leads, the kinds of the objects that VidraResources have in the cluster of the
// operator. When this replica leads, it has them listed already.
type standby struct {
	manager  manager.Manager
	local    *cluster.Cluster
	registry *watchregistry.Registry
	// scope is the part of the cluster that Vidra may use.
	scope cluster.Scope
	// waits is closed when another replica leads.
	waits <-chan struct{}
}

// watched is the target of a watch: a kind, and a namespace if Vidra is limited to named ones.
type watched struct {
	gvk       schema.GroupVersionKind
	namespace string
}

// question is a question for a kind that is not watched.
type question struct {
	asked time.Time
	// wait is the time until the kind may be asked for again, and repeats is whether it is then.
	wait    time.Duration
	repeats bool
}

// questions are the questions for the kinds that are not watched.
type questions struct {
	all map[watched]question
	// repeat has a kind found again after a time.
	repeat func(one watched, after time.Duration)
}

// due reports whether a kind may be asked for now. If not, it is asked for later, as it may be served since the last question.
func (q *questions) due(one watched) bool {
	last := q.all[one]
	rest := last.wait - time.Since(last.asked)
	if rest > 0 && !last.repeats {
		last.repeats = true
		q.all[one] = last
		q.repeat(one, rest)
	}
	return rest <= 0
}

// failed records a question that has failed. One that is unanswered is repeated; a kind that is not served is asked for again when it is found again.
func (q *questions) failed(one watched, err error) {
	next := question{asked: time.Now(), wait: askAgain}
	if !meta.IsNoMatchError(err) {
		next.wait, next.repeats = min(max(2*q.all[one].wait, askAgain), askRarely), true
		q.repeat(one, next.wait)
	}
	if len(q.all) >= maxAsked {
		clear(q.all)
	}
	q.all[one] = next
}

// NeedLeaderElection is false: it works while another replica leads.
func (s *standby) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (s *standby) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.manager.Elected():
		return nil
	case <-s.waits:
	}
	found := make(chan watched)
	ended := make(chan struct{})
	defer close(ended)
	stop, err := s.follow(ctx, found, ended)
	if err != nil {
		return err
	}
	defer stop()
	// The watches run on for a while, until the reconciles need them.
	defer s.registry.Release(standbyOwner)
	keys := map[watched]watchregistry.Key{}
	unwatched := questions{all: map[watched]question{}, repeat: func(one watched, after time.Duration) {
		time.AfterFunc(after, func() {
			select {
			case found <- one:
			case <-ended:
			}
		})
	}}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.manager.Elected():
			return nil
		case one := <-found:
			if _, known := keys[one]; known || !unwatched.due(one) {
				continue
			}
			mapping, err := s.local.MappingInAnyVersion(ctx, one.gvk)
			if err != nil {
				unwatched.failed(one, err)
				continue
			}
			keys[one] = watchregistry.Key{Cluster: s.local.Name(), GVR: mapping.GVR, Namespace: one.namespace}
			s.registry.Ensure(standbyOwner, slices.Collect(maps.Values(keys)))
		}
	}
}

// follow sends the kinds of the objects of each VidraResource to found, until ended is closed.
func (s *standby) follow(ctx context.Context, found chan<- watched, ended <-chan struct{}) (stop func(), err error) {
	informer, err := s.manager.GetCache().GetInformer(ctx, &v1alpha1.VidraResource{})
	if err != nil {
		return nil, fmt.Errorf("read the VidraResources: %w", err)
	}
	send := func(obj any) {
		v, is := obj.(*v1alpha1.VidraResource)
		if !is || !v.WatchesEvents() || !access.IsLocal(v.Spec.Destination.Server) {
			return
		}
		for i := range v.Status.ManagedResources {
			e := &v.Status.ManagedResources[i]
			if s.scope.Namespace(e.Namespace) != nil {
				continue
			}
			one := watched{gvk: schema.FromAPIVersionAndKind(e.APIVersion, e.Kind)}
			if s.scope.NamesNamespaces() {
				one.namespace = e.Namespace
			}
			select {
			case found <- one:
			case <-ended:
				return
			}
		}
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: send, UpdateFunc: func(_, obj any) { send(obj) },
	})
	if err != nil {
		return nil, fmt.Errorf("follow the VidraResources: %w", err)
	}
	return func() { _ = informer.RemoveEventHandler(registration) }, nil // it fails after the informer has stopped
}
