package reconcile

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// startingRetry is when a pass is tried again of whose destination it is not known yet
// whether it can be reached.
const startingRetry = 500 * time.Millisecond

// record records the Events of what a pass over a VidraResource did, of which its status was before and is
// after what it did.
func (r *Reconciler) record(owner trigger.Owner, regarding corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus, changes []events.Change) {
	at := r.clusters.of(owner)
	for i := range changes {
		changes[i].Cluster = at
	}
	r.Recorder.Record(events.Transitions(regarding, before, after, changes))
}

// DestinationChanged enqueues the VidraResources at a remote cluster and retries its watches: it
// became unreachable or reachable, or has other credentials. See cluster.DestinationsOptions.
func (r *Reconciler) DestinationChanged(name string) {
	r.Watches.Wake(name)
	r.Trigger.EnqueueAll(r.clusters.owners(name)...)
}

// isLocal reports whether a destination is the cluster that Vidra runs in.
func isLocal(server string) bool { return server == "" || server == v1alpha1.LocalServer }

// destinations returns the clusters that objects are applied to.
func (r *Reconciler) destinations() *destinations {
	return &destinations{local: r.Local, remotes: r.Remotes, clusters: &r.clusters}
}

// connect finds the destination, and the client with which its objects are read and
// written. It returns why nothing can be done.
func (p *pass) connect(ctx context.Context) *failure {
	destination, scope, err := p.destinations().find(p.owner, p.vr.Spec.Destination.Server)
	if err != nil {
		if errors.Is(err, errServedByAnother) {
			p.forget(p.owner)
		}
		p.starting = errors.Is(err, cluster.ErrStarting)
		return &failure{v1alpha1.ReasonDestinationUnreachable, err.Error()}
	}
	if remote, is := destination.(*cluster.Cluster); is && destination != p.Local {
		p.Watches.AddCluster(remote.Name(), remote)
	}
	p.applier.destination, p.kubeconfig = destination, scope
	var why *failure
	if p.applier.client, p.applier.user, why = p.accounts().clientOf(ctx, p.vr, destination); why != nil {
		return why
	}
	if why := outOfScope(scope, p.vr); why != nil {
		return why
	}
	why, p.starting = unreachable(destination)
	return why
}

// depart forgets the destination of an owner that is gone.
func (r *Reconciler) depart(owner trigger.Owner) {
	r.clusters.remove(owner, func(server string) {
		r.Watches.RemoveCluster(server)
		r.Remotes.Forget(server)
		r.Trigger.ForgetCluster(server)
	})
}

// usable reports whether requests to a cluster are answered, as far as is known.
func usable(d Destination) bool { return d.Unreachable() == nil && !d.MaybeUnreachable() }

// block ends a pass that cannot do anything at present. What was applied stays as it
// is and in the inventory, and what was to be done is done later.
func (p *pass) block(ctx context.Context, why failure) (reconcile.Result, error) {
	p.state.unbegun = p.first
	if p.starting {
		p.requeueCauses()
		return reconcile.Result{RequeueAfter: startingRetry, Priority: ptr.To(0)}, nil
	}
	if p.causes.Objects != nil {
		p.pendingDrift = p.causes.Objects
	}
	result, err := p.finish(ctx, outcome{blocked: &why})
	p.Trigger.RequeueCauses(p.owner, trigger.Causes{All: true})
	return result, err
}

// conclude ends a pass as finish does, unless the destination cannot be reached any
// more, or that is not known yet: then all that failed may have failed for that, and the
// next pass says so. What was done is reported later.
func (p *pass) conclude(ctx context.Context, o outcome) (reconcile.Result, error) {
	if usable(p.applier.destination) {
		return p.finish(ctx, o)
	}
	p.requeuePending(p.scope.all)
	return reconcile.Result{RequeueAfter: startingRetry, Priority: ptr.To(0)}, nil
}

// releaseAll ends the finalization of a VidraResource whose objects are to stay, at a
// cluster that cannot be reached: they are left as they are.
func (p *pass) releaseAll() bool {
	if !p.vr.Orphans() {
		return false
	}
	s := p.state
	for _, o := range s.inventory() {
		s.pendingEvents = append(s.pendingEvents, events.Change{Action: events.Orphaned, Object: referenceTo(o.id, gvkOf(o.entry), "")})
		o.entry, o.problem = nil, nil
	}
	return true
}
