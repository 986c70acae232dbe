package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/status"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// startingRetry is the delay of a retry while the reachability of the destination is unknown.
const startingRetry = 500 * time.Millisecond

// kubeconfigGrace is how long a new VidraResource waits for its kubeconfig before that is reported: one client often creates both.
const kubeconfigGrace = 3 * time.Second

// record records the Events of a reconcile of a VidraResource. before and after are its status before and after that.
func (r *Reconciler) record(owner trigger.Owner, regarding corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus, changes []events.Change) {
	at := r.Clusters.Index.Of(owner)
	for i := range changes {
		changes[i].Cluster = at
	}
	r.Reports.lines.log(ctrllog.Log.WithName("outcome"), r.Reports.LineSuppressed, regarding.Name, before, after, changes, time.Now())
	r.Reports.Recorder.Record(events.Transitions(regarding, before, after, changes))
}

// DestinationChanged enqueues the VidraResources at a remote cluster and retries its watches: it
// became unreachable or reachable, or has other credentials. See cluster.DestinationsOptions.
func (r *Reconciler) DestinationChanged(name string) {
	r.identities.Forget(name)
	r.Watching.Watches.Wake(name)
	r.Watching.Trigger.EnqueueRetry(r.Clusters.Index.Owners(name)...)
}

// connect finds the destination, and the client that reads and writes its objects. It returns the reason that all work
// has to wait.
func (p *pass) connect(ctx context.Context) *object.Failure {
	destination, scope, err := p.reconciler.Clusters.Find(p.plan.Settings.Claimant.Owner, p.plan.VR.Spec.Destination.Server)
	if err != nil {
		if errors.Is(err, access.ErrServedByAnother) {
			p.state.lane.closeLocked()
			p.reconciler.forget(p.plan.Settings.Claimant.Owner)
		}
		p.starting = errors.Is(err, cluster.ErrStarting)
		return &object.Failure{Reason: v1alpha1.ReasonDestinationUnreachable, Message: err.Error()}
	}
	kubeconfig := p.state.plan.Origin.Destination.Kubeconfig
	remote, is := destination.(*cluster.Cluster)
	isRemote := is && destination != p.reconciler.Clusters.Local
	if isRemote {
		p.reconciler.Watching.Watches.AddCluster(remote.Name(), remote)
		if p.noteKubeconfig(remote); p.state.plan.Origin.Destination.Kubeconfig != kubeconfig && p.state.plan.Origin.Destination.ClusterUID != "" {
			p.state.plan.Origin.Former = plan.Destination{Kubeconfig: kubeconfig, ClusterUID: p.state.plan.Origin.Destination.ClusterUID}
			p.state.plan.Origin.Destination.ClusterUID = "" // of another cluster, as far as is known
		}
	} else {
		p.state.plan.Origin.Destination, p.state.plan.Origin.Former = plan.Destination{}, plan.Destination{}
		// A VidraResource of this name may have gone without a reconcile, as without its finalizer.
		p.reconciler.Clusters.Index.Remove(p.plan.Settings.Claimant.Owner, p.reconciler.forgetCluster)
	}
	p.applier.Destination, p.applier.Settings.Allowed = destination, scope
	var why *object.Failure
	if p.applier.Client, p.applier.User, why = p.reconciler.Accounts.ClientOf(ctx, p.plan.VR, destination); why != nil {
		return why
	}
	if why := access.OutOfScope(scope, p.plan.VR); why != nil {
		return why
	}
	why, p.starting = access.Unreachable(destination)
	if why != nil && !p.starting {
		p.starting = errors.Is(destination.Unreachable(), cluster.ErrUnmatched) && p.plan.VR.Status.ObservedGeneration == 0 && time.Since(p.state.writes.Begun) < kubeconfigGrace
	}
	if why == nil && isRemote {
		why = p.noteIdentity(ctx, remote, kubeconfig)
	}
	return why
}

// noteKubeconfig notes the kubeconfig of the destination for the status, and that it is another one than before.
func (p *pass) noteKubeconfig(remote *cluster.Cluster) {
	digest, secret := remote.Kubeconfig()
	if digest == "" {
		return
	}
	place := kubeconfigPlace(p.plan.VR, remote.Name())
	if was, known := p.state.plan.Keys.Open(place, p.state.plan.Origin.Destination.Kubeconfig); known && was != digest {
		p.plan.Note(events.Change{Action: events.Rotated, Object: object.ReferenceToOwner(p.plan.VR), Note: fmt.Sprintf(
			"uses the changed kubeconfig in Secret %s for its destination %s", secret, remote.Name())})
	}
	p.state.plan.Origin.Destination.Kubeconfig = p.state.plan.Keys.Seal(place, digest)
}

// kubeconfigChanged reports whether a destination has another kubeconfig than a reconcile has noted, so that it may be another cluster, or whether
// that is still unknown.
func (p *pass) kubeconfigChanged(destination access.Destination) bool {
	if p.state.plan.Origin.Former.ClusterUID != "" {
		return true
	}
	digest, _ := destination.Kubeconfig()
	if digest == "" { // the local cluster
		return false
	}
	was, known := p.state.plan.Keys.Open(kubeconfigPlace(p.plan.VR, destination.Name()), p.state.plan.Origin.Destination.Kubeconfig)
	return !known || was != digest
}

// kubeconfigPlace is the place of status.kubeconfigDigest for its seal: another destination is no rotation.
func kubeconfigPlace(vr *v1alpha1.VidraResource, server string) string {
	return "kubeconfig/" + string(vr.UID) + "/" + server
}

// forgetCluster forgets an unneeded remote cluster.
func (r *Reconciler) forgetCluster(server string) {
	r.Watching.Watches.RemoveCluster(server)
	r.Clusters.Remotes.Forget(server)
	r.Watching.Trigger.ForgetCluster(server)
	r.identities.Forget(server)
}

// isSame reports whether an object of the destination is also the object of its name at the destination of another
// VidraResource, which is another URL. See access.Identities.IsSame.
func (p *pass) isSame(ctx context.Context, vr *v1alpha1.VidraResource, key trigger.ObjectKey, live *unstructured.Unstructured) (bool, error) {
	return p.reconciler.identities.IsSame(ctx, p.applier.Destination, key, live, func(context.Context) (access.Destination, cluster.Scope, func(), error) {
		return p.reconciler.Clusters.Borrow(vr.Spec.Destination.Server, p.reconciler.forgetCluster)
	}, func(at access.Destination) types.UID {
		if at == nil {
			return ""
		}
		is, known := p.state.plan.Keys.Open(kubeconfigPlace(vr, at.Name()), vr.Status.KubeconfigDigest)
		if digest, _ := at.Kubeconfig(); !known || is != digest {
			return "" // asked for with another kubeconfig, or none is left, or by another installation
		}
		return types.UID(vr.Status.ClusterUID)
	})
}

// noteIdentity notes the identity of a remote destination for the status, which has it while the cluster is silent. It
// asks once for each kubeconfig: with another one, before anything is written, as it may belong to another cluster. It returns the reason to
// begin anew: the destination is another cluster, or that is still unknown.
func (p *pass) noteIdentity(ctx context.Context, remote *cluster.Cluster, kubeconfigBefore string) *object.Failure {
	s := p.state
	former := types.UID(s.plan.Origin.Former.ClusterUID)
	if former == "" && (!p.plan.Scope.All || s.plan.Origin.Destination.ClusterUID != "" && s.plan.Origin.Destination.Kubeconfig == kubeconfigBefore) {
		return nil
	}
	var uid types.UID
	var err error
	s.lane.apart(func() { uid, err = p.reconciler.identities.Of(ctx, remote) })
	switch {
	case former != "" && err != nil && !apierrors.IsForbidden(err):
		return &object.Failure{Reason: v1alpha1.ReasonDestinationUnreachable, Message: fmt.Sprintf(
			"%s has another kubeconfig, and it is not known whether it is the same cluster: %v", remote.Name(), err)}
	case err != nil: // no right shows it
		s.plan.Origin.Former = plan.Destination{}
		return nil
	}
	s.plan.Origin.Destination.ClusterUID, s.plan.Origin.Former = string(uid), plan.Destination{}
	if former == "" || former == uid {
		return nil
	}
	p.noteReplaced(remote, former, uid)
	s.lane.waitLocked(func() bool { return s.lane.healing == 0 })
	for _, o := range s.plan.Objects.Manifest {
		p.reconciler.Watching.Index.Forget(p.plan.Settings.Claimant.Owner, o.Desired.Key)
	}
	s.plan.Empty()
	s.inventory.loaded, p.starting, p.plan.Causes.All = false, true, true
	return &object.Failure{Reason: v1alpha1.ReasonDestinationUnreachable, Message: "it is another cluster now"}
}

// maxLeft is how many objects in a former cluster an Event names.
const maxLeft = 3

// noteReplaced reports that the destination is another cluster than before: the objects in the former one stay there.
func (p *pass) noteReplaced(remote *cluster.Cluster, former, uid types.UID) {
	var names []string
	for _, o := range p.state.plan.Objects.Inventory() {
		names = append(names, o.ID.String())
	}
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	regarding, now := object.ReferenceToOwner(p.plan.VR), p.state.plan.Status
	p.reconciler.record(p.plan.Settings.Claimant.Owner, regarding, now, now, []events.Change{{Action: events.Rotated, Object: regarding, Note: fmt.Sprintf(
		"has another cluster as its destination %s (UID %s of the Namespace kube-system, before %s): the objects in the former one stay there, unmanaged: %s",
		remote.Name(), uid, former, display.First(names, maxLeft, len(names)))}})
}

// block ends a reconcile whose work has to wait at present. Applied objects stay unchanged and in the inventory, and the work
// is done later.
func (p *pass) block(ctx context.Context, why object.Failure) (reconcile.Result, error) {
	p.state.attempt.unbegun = p.plan.First
	if p.starting {
		p.requeueCauses()
		return reconcile.Result{RequeueAfter: startingRetry, Priority: ptr.To(0)}, nil
	}
	if p.plan.Causes.Objects != nil {
		p.plan.Findings.PendingDrift = p.plan.Causes.Objects
	}
	result, err := p.finish(ctx, status.Outcome{Obstacles: status.Obstacles{Blocked: &why}})
	p.reconciler.Watching.Trigger.RequeueCauses(p.plan.Settings.Claimant.Owner, trigger.Causes{All: true})
	return result, err
}

// conclude ends a reconcile as finish does, unless the destination has become unreachable, or that is still unknown: then
// all failures may have that cause, and the next reconcile reports so. Its writes are reported later.
func (p *pass) conclude(ctx context.Context, o status.Outcome) (reconcile.Result, error) {
	if access.Usable(p.applier.Destination) {
		return p.finish(ctx, o)
	}
	p.requeuePending(p.plan.Scope.All)
	return reconcile.Result{RequeueAfter: startingRetry, Priority: ptr.To(0)}, nil
}

// releaseAll ends the finalization of a VidraResource whose objects are to stay, at a
// cluster that is unreachable: they are unchanged.
func (p *pass) releaseAll() bool {
	if !p.plan.VR.Orphans() {
		return false
	}
	s := p.state
	for _, o := range s.plan.Objects.Inventory() {
		p.plan.Note(events.Change{Action: events.Orphaned, Object: object.ReferenceTo(o.ID, object.GVKOf(o.Entry), "")})
		o.Entry = nil
		o.EndProblem()
	}
	return true
}
