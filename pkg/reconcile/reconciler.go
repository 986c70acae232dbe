package reconcile

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/relation"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/assignment"
	"github.com/vidra-operator/vidra/pkg/reconcile/contention"
	"github.com/vidra-operator/vidra/pkg/reconcile/limits"
	"github.com/vidra-operator/vidra/pkg/reconcile/metawatch"
	"github.com/vidra-operator/vidra/pkg/reconcile/metrics"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
	"github.com/vidra-operator/vidra/pkg/reconcile/status"
	"github.com/vidra-operator/vidra/pkg/source"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Reconciler reconciles VidraResources. Its fields must stay as they are after the first call of Reconcile.
type Reconciler struct {
	// Assignment is which VidraResources are reconciled. Watching.Trigger must have the same installation.
	Assignment assignment.Assignment
	Clients    Clients
	// Clusters are the clusters that objects are in.
	Clusters access.Destinations
	// Accounts are the rules about the accounts that VidraResources name.
	Accounts access.Accounts
	Options  Options
	Secrets  Secrets
	Watching Watching
	Reports  Reports

	related relations
	bounds  bounds
	// states are the states of the VidraResources.
	states      ownerStates
	caughtUp    catchUp
	definitions definitionReads
	identities  access.Identities
}

// Clients are clients of the cluster that has the VidraResources.
type Clients struct {
	// Client reads VidraResources from the cache, and writes their status and finalizer.
	Client client.Client
	// API reads VidraResources from the API server.
	API client.Reader
	// Metadata watches the sources in spec.manifestFrom, and lists VidraResources.
	Metadata metadata.Interface
}

// Options are the settings of the operator for all VidraResources. The zero value has no resync and no backstop.
type Options struct {
	// DefaultInterval is the resync interval where spec.interval is unset.
	DefaultInterval time.Duration
	// BackstopInterval is the interval of the backstop.Lister. Zero turns the backstop off.
	BackstopInterval time.Duration
	// Namespace is the namespace of Vidra itself; empty if it is unknown.
	Namespace string
	// Artifacts are the kinds of the sources with artifacts that spec.manifestFrom may name. Optional.
	Artifacts source.Kinds
	// MaxBreakGlass is how long break-glass annotations exempt an object at most, where
	// spec.drift.maxBreakGlass is unset. Zero refuses all.
	MaxBreakGlass time.Duration
	// UserStamps reports that a policy writes ownership.EditedByAnnotation in Clusters.Local.
	UserStamps bool
	// Additions is the policy for the additions of users to objects where spec.drift.additions
	// is unset. Defaults to Keep.
	Additions v1alpha1.AdditionsPolicy
	// PeopleTools are the field managers of the clients that users work with.
	PeopleTools ownership.Tools
	// Parallel is how many objects of a stage are applied at a time. Defaults to
	// plan.DefaultParallel.
	Parallel int
}

// Secrets are the Secrets of the operator.
type Secrets struct {
	// DigestKeys seal the digests of sensitive objects in the status.
	DigestKeys *seal.Store
	// Kept keeps manifests that come from artifacts. Optional: without it, they are dropped.
	Kept *source.Kept
}

// Watching reports changes of objects, and of all else that VidraResources wait for.
type Watching struct {
	// Watches, Index and Trigger report the changes of the objects.
	Watches Watches
	Index   *trigger.Index
	Trigger *trigger.Factory

	sources   source.Watches
	obstacles metawatch.Watches
	grants    *access.Grants
}

// Reports are the places of the results.
type Reports struct {
	// Inventories gets the inventories as they are written. Required.
	Inventories *status.Inventories
	// Recorder writes Events.
	Recorder Recorder
	// Metrics count the work.
	Metrics *metrics.Metrics
	// LineSuppressed is called for each line of the log that is left out, because there are many about one object. Optional.
	LineSuppressed func()

	lines outcomes
}

// relations relate VidraResources to the names that they wait for or depend on.
type relations struct {
	// namespaces are the namespaces of the local cluster that the objects are in.
	namespaces relation.Shared[trigger.Owner, string]
	// rivals are the names of other VidraResources that had their applies refused.
	rivals relation.Shared[trigger.Owner, string]
	named  owners.Named
}

// bounds bound the work of all VidraResources.
type bounds struct {
	remote *limits.RemoteLimiter
	heavy  *limits.HeavyShare
	budget contention.Budget
	// recompute spaces the applies that only find out digests of this version.
	recompute flowcontrol.PassiveRateLimiter
	// gate bounds the objects with requests in flight.
	gate *limits.Gate
	// workers are the workers of the controller; nil if each reconcile has its worker until its end.
	workers *limits.Workers
}

// Reconcile reconciles a VidraResource once, unless Flush or FlushEvents was called.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	return r.bounds.workers.Run(req.NamespacedName, func(leaveWorker func()) (reconcile.Result, error) {
		if !r.states.begin() {
			return reconcile.Result{}, nil
		}
		defer r.states.running.Done()
		return r.reconcile(ctx, req.NamespacedName, leaveWorker)
	}, func() { r.interrupt(ctx, req.NamespacedName) })
}

// interrupt has the reconcile of a VidraResource that runs send no requests about further objects, if its spec or a source of its manifest
// has changed since, or it is gone.
func (r *Reconciler) interrupt(ctx context.Context, owner trigger.Owner) {
	s := r.states.of(owner)
	if s == nil {
		return
	}
	vr, err := owners.Cached(ctx, r.Clients.Client, owner.Name)
	if err != nil {
		return
	}
	s.lane.mu.Lock()
	defer s.lane.mu.Unlock()
	if vr == nil {
		s.attempt.interrupted.Store(!s.inventory.justHeld) // otherwise its objects are removed at the end
	} else if s.plan.UID != vr.UID || s.attempt.isOfAnother(vr.Generation, r.revisionsOf(vr)) {
		s.attempt.interrupted.Store(true)
	}
}

// reconcile reconciles a VidraResource once. leaveWorker has it continue without its worker.
func (r *Reconciler) reconcile(ctx context.Context, owner trigger.Owner, leaveWorker func()) (reconcile.Result, error) {
	ctx, returned, done := r.Assignment.Running(ctx, owner)
	defer done()
	foreign := r.states.foreign(owner)
	vr := &v1alpha1.VidraResource{}
	if err := r.Clients.Client.Get(ctx, owner, vr); apierrors.IsNotFound(err) {
		r.endHeals(owner)
		r.reportLast(ctx, owner)
		r.forget(owner)
		r.caughtUp.forget(owner.Name)
		r.Watching.Trigger.EnqueueRetry(r.related.rivals.Owners(owner.Name)...)
		return reconcile.Result{}, nil
	} else if err != nil {
		return reconcile.Result{}, err
	}
	if returned { // another shard may have changed its objects and its inventory
		r.states.restart(owner, false)
		r.Watching.Trigger.Release(owner)
	}
	vr, err := r.caughtUp.latest(ctx, r.Clients.Metadata.Resource(v1alpha1.Resource), r.Clients.API, vr, r.Assignment.Has)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case vr == nil:
		return reconcile.Result{RequeueAfter: wait.Jitter(catchUpRetry, 1)}, nil
	}
	reconciled, held := r.Assignment.Reconciles(vr), r.Assignment.Holds(vr)
	if !reconciled && !held {
		r.endHeals(owner)
		r.forget(owner)
		return reconcile.Result{}, nil
	}
	server := vr.Spec.Destination.Server
	if at := r.Clusters.Index.Of(owner); at != "" { // other URLs may stand for the same cluster
		server = at
	}
	exit, ok := r.bounds.remote.Enter(server)
	if !ok && !r.Clusters.IsAway(server) {
		return reconcile.Result{RequeueAfter: wait.Jitter(plan.RemoteRetry, 1)}, nil
	}
	exit = sync.OnceFunc(exit)
	defer exit()
	exitHeavy := func() {}
	keys, err := r.Secrets.DigestKeys.Get(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	causes := r.Watching.Trigger.TakeCauses(owner)
	if r.isHeavy(owner, vr, causes) {
		if exitHeavy, ok = r.bounds.heavy.Enter(artifactsTenant(vr)); !ok {
			r.Watching.Trigger.RequeueCauses(owner, causes)
			return reconcile.Result{RequeueAfter: wait.Jitter(plan.HeavyRetry, 1)}, nil
		}
		exitHeavy = sync.OnceFunc(exitHeavy)
		defer exitHeavy()
	}
	if !reconciled {
		assignment.Release(vr)
	}
	p := r.newPass(owner, vr, causes, keys)
	p.foreign, p.leavePlaces = foreign, func() { exit(); exitHeavy(); leaveWorker() }
	defer p.state.lane.leave()
	if !reconciled && vr.DeletionTimestamp.IsZero() { // a deletion continues
		defer r.states.restart(owner, false) // it may be given back
	}
	if !reconciled || !vr.DeletionTimestamp.IsZero() {
		return p.finalize(ctx)
	}
	if other, waits := r.Assignment.Installation.HeldByAnother(vr); waits && !held {
		p.state.lane.closeLocked()
		defer r.states.restart(owner, false) // the other installation changes the inventory
		return p.awaitRelease(ctx, other)
	}
	if p.finalizer.missing = !held; len(p.state.plan.Objects.Inventory()) > 0 { // otherwise the finalizer is written with the inventory
		if err := p.hold(ctx, nil); err != nil {
			p.requeueCauses()
			return reconcile.Result{}, err
		}
	}
	return p.run(ctx)
}

// forget drops everything that is known of a VidraResource that is gone.
func (r *Reconciler) forget(owner trigger.Owner) {
	r.states.forget(owner)
	r.Reports.Inventories.Forget(owner.Name)
	r.related.namespaces.Set(owner, func(func(string) bool) {})
	r.Watching.sources.Release(owner)
	r.Watching.obstacles.Release(owner)
	r.related.named.Forget(owner.Name)
	r.related.rivals.Set(owner, func(func(string) bool) {})
	if r.Watching.grants != nil {
		r.Watching.grants.Await(owner, nil)
	}
	r.bounds.gate.Forget(owner)
	r.Watching.Watches.Release(owner)
	r.Watching.Trigger.Release(owner)
	r.Clusters.Index.Remove(owner, r.forgetCluster)
}

// Known reports whether the operator has a state of a VidraResource. It takes the lock of all states.
func (r *Reconciler) Known(owner trigger.Owner) bool { return r.states.of(owner) != nil }

// endHeals has no heal of an object of a VidraResource begin any more, and waits for those that run. A new state begins
// them again.
func (r *Reconciler) endHeals(owner trigger.Owner) {
	if s := r.states.of(owner); s != nil {
		s.lane.close()
	}
}
