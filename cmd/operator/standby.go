package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

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
	// askAgain is how long a standby does not ask again for a kind that is not served: many objects may be of it.
	askAgain = 10 * time.Second
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
	keys, asked := map[watched]watchregistry.Key{}, map[watched]time.Time{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.manager.Elected():
			return nil
		case one := <-found:
			if _, known := keys[one]; known || time.Since(asked[one]) < askAgain {
				continue
			}
			if mapping, err := s.local.MappingInAnyVersion(ctx, one.gvk); err == nil { // else it is asked for with a later change
				keys[one] = watchregistry.Key{Cluster: s.local.Name(), GVR: mapping.GVR, Namespace: one.namespace}
				s.registry.Ensure(standbyOwner, slices.Collect(maps.Values(keys)))
			}
			if len(asked) >= maxAsked {
				clear(asked)
			}
			asked[one] = time.Now()
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
