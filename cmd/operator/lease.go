package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	typedauthorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

const (
	leaderElectionID = "vidra-operator.infrahub.operators.com"
	// renewDeadline is how long the leader tries to renew the Lease, and to give it back.
	renewDeadline = 10 * time.Second
	// abandonedAfter is how many of its durations an unrenewed Lease lasts before it counts as abandoned, by the clock of this operator.
	abandonedAfter = 2
	// mostSkew is the largest difference between the clocks of two machines: a Lease whose time is older is abandoned, and not waited for.
	mostSkew = 5 * time.Minute
	// longestLease is the longest duration that a Lease may have; a longer one counts as this.
	longestLease = time.Minute
	// selectorTimeout bounds the write of the label selector of a shard, because the next renewal comes after it.
	selectorTimeout = 2 * time.Second
	// othersInterval is the time between two checks whether another namespace has a leader.
	othersInterval = 2 * time.Second
)

// leaseName is the name of the Lease of a shard of an installation.
func leaseName(installation v1alpha1.Installation, shard v1alpha1.Shard) string {
	name := leaderElectionID
	if installation != "" {
		name = string(installation) + "." + name
	}
	if shard != "" { // an installation has no dot, so that no other one has this name
		name = shard.Name() + ".shard." + name
	}
	return name
}

// installationLock is the Lease of an installation. An operator does not acquire it while
// another operator holds a Lease of the same name in another namespace: both would reconcile the
// same VidraResources. A leader continues, so at most one of them leads. Only a Lease whose holder
// is a ServiceAccount that may reconcile VidraResources counts: users may write Leases.
type installationLock struct {
	*resourcelock.LeaseLock
	// watches has no time limit for a request, which would end a watch, too.
	watches      typedcoordinationv1.LeaseInterface
	installation v1alpha1.Installation
	log          logr.Logger
	// replica gets to know when the Lease is renewed, and when another replica holds it.
	replica *replica
	// shard is the part that the operator reconciles.
	shard shardOfLease
	// reviews asks for the rights of holders. account is the ServiceAccount of this operator, or empty.
	reviews typedauthorizationv1.SubjectAccessReviewInterface
	account string
	// seen are the Leases of other namespaces that looked held, by namespace.
	seen map[string]heldLease
	// leads is whether the Lease was acquired.
	leads atomic.Bool
	// held is the Lease of another replica as Get saw it last.
	held heldLease
	// unwatched is whether the last request to watch the Lease failed.
	unwatched bool
}

// shardOfLease is a shard, and the write of its label selector to its Lease, from which operators of other shards read it. It is repeated until it
// succeeds.
type shardOfLease struct {
	selector v1alpha1.Shard
	written  bool
	// backoff spaces the attempts, and due is the time of the next one.
	backoff wait.Backoff
	due     time.Time
}

// selectorBackoff spaces the attempts to write the label selector of a shard: the right may be missing.
var selectorBackoff = wait.Backoff{Duration: 2 * time.Second, Factor: 2, Steps: 10, Cap: 2 * time.Minute}

// newInstallationLock makes the lock for --leader-elect.
func newInstallationLock(config *rest.Config, o options, r *replica, log logr.Logger) (*installationLock, error) {
	namespace := cmp.Or(o.leaseNamespace, ownNamespace())
	if namespace == "" {
		return nil, errors.New("the namespace of the Lease is not known outside of a cluster: give --leader-election-namespace")
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name the holder of the Lease: %w", err)
	}
	limited := rest.CopyConfig(config)
	limited.Timeout = renewDeadline / 2 // one request that hangs does not lose the Lease
	leases, err := typedcoordinationv1.NewForConfig(limited)
	if err != nil {
		return nil, fmt.Errorf("make the client of Leases: %w", err)
	}
	watches, err := typedcoordinationv1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make the client that watches the Lease: %w", err)
	}
	account := ownAccount(limited, log)
	reviews, err := typedauthorizationv1.NewForConfig(limited)
	if err != nil {
		return nil, fmt.Errorf("make the client of SubjectAccessReviews: %w", err)
	}
	return &installationLock{
		LeaseLock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: leaseName(o.installation, o.shard)},
			Client:     leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: identityOf(host, string(uuid.NewUUID()), account)},
		},
		watches: watches.Leases(namespace), reviews: reviews.SubjectAccessReviews(), account: account, installation: o.installation, shard: shardOfLease{selector: o.shard}, log: log, replica: r,
		seen: map[string]heldLease{},
	}, nil
}

// Create implements resourcelock.Interface.
func (l *installationLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.acquire(ctx, record, l.LeaseLock.Create)
}

// Update implements resourcelock.Interface. It also renews the Lease, and gives it back.
func (l *installationLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if l.leads.Load() || record.HolderIdentity == "" {
		sent := time.Now()
		err := l.LeaseLock.Update(ctx, record)
		if err != nil {
			return err
		}
		l.replica.fence.renew(sent)
		if l.leads.Load() && record.HolderIdentity != "" {
			l.writeSelector(ctx)
		}
		return nil
	}
	return l.acquire(ctx, record, l.LeaseLock.Update)
}

// acquire writes the record unless another namespace has a leader. It tries again after
// that: two operators may write at the same time, and then both give the Lease back.
func (l *installationLock) acquire(ctx context.Context, record resourcelock.LeaderElectionRecord,
	write func(context.Context, resourcelock.LeaderElectionRecord) error,
) error {
	if waited, err := l.awaitOthers(ctx); err != nil || waited {
		return cmp.Or(err, errors.New("the record is outdated, because another operator was waited for"))
	}
	sent := time.Now()
	record.AcquireTime, record.RenewTime = metav1.NewTime(sent), metav1.NewTime(sent) // Get may have waited for long
	if err := write(ctx, record); err != nil {
		return err
	}
	if other, err := l.other(ctx); err != nil || other != nil {
		record.HolderIdentity = ""
		return errors.Join(err, errors.New("another operator acquired its Lease at the same time"), l.LeaseLock.Update(ctx, record))
	}
	l.replica.fence.renew(sent)
	l.leads.Store(true)
	l.shard = shardOfLease{selector: l.shard.selector, backoff: selectorBackoff} // the Lease may be a new one
	l.writeSelector(ctx)
	return nil
}

// writeSelector writes the label selector of the shard to the Lease, if that is due. Without it, no VidraResource is reported as unselected.
func (l *installationLock) writeSelector(ctx context.Context) {
	if l.shard.selector == "" || l.shard.written || time.Now().Before(l.shard.due) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, selectorTimeout)
	defer cancel()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{selectorAnnotation: string(l.shard.selector)}}})
	if err == nil {
		_, err = l.Client.Leases(l.LeaseMeta.Namespace).Patch(ctx, l.LeaseMeta.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if err == nil {
		_, _, err = l.LeaseLock.Get(ctx) // the next renewal is of this version
	}
	if l.shard.written = err == nil; err != nil {
		l.shard.due = time.Now().Add(l.shard.backoff.Step())
		l.log.Info("Cannot write the label selector of the shard to its Lease: no VidraResource is reported as unselected until a later attempt succeeds", "error", err.Error())
	}
}

// awaitOthers waits until no other namespace has a leader, and reports whether it had to.
func (l *installationLock) awaitOthers(ctx context.Context) (waited bool, err error) {
	for {
		other, err := l.other(ctx)
		if other == nil || err != nil {
			return waited, err
		}
		if !waited {
			l.log.Error(nil, refusal(l.installation, other))
		}
		waited = true
		select {
		case <-ctx.Done():
			return waited, ctx.Err()
		case <-time.After(othersInterval):
		}
	}
}

// other returns the Lease of an operator of the same installation that leads in another
// namespace; nil if it is absent, or if a LIST of the Leases is forbidden.
func (l *installationLock) other(ctx context.Context) (*coordinationv1.Lease, error) {
	leases, err := l.Client.Leases(metav1.NamespaceAll).List(ctx, metav1.SingleObject(l.LeaseMeta))
	if apierrors.IsForbidden(err) {
		l.log.Info("Cannot see whether an operator of the same installation leads in another namespace: grant the verb list on leases", "error", err.Error())
		return nil, nil //nolint:nilnil // as if there were none
	}
	if err != nil {
		return nil, fmt.Errorf("list the Leases %s of all namespaces: %w", l.LeaseMeta.Name, err)
	}
	return l.heldByOperator(ctx, heldElsewhere(leases.Items, l.LeaseMeta.Namespace, time.Now()))
}

// heldElsewhere returns the Leases that look held in a namespace other than own.
func heldElsewhere(leases []coordinationv1.Lease, own string, now time.Time) (looksHeld []*coordinationv1.Lease) {
	for i := range leases {
		lease := &leases[i]
		if lease.Namespace != own && held(lease) && now.Before(lease.Spec.RenewTime.Add(durationOf(lease)+mostSkew)) {
			looksHeld = append(looksHeld, lease)
		}
	}
	return looksHeld
}

// durationOf returns how long a Lease is held after a renewal.
func durationOf(lease *coordinationv1.Lease) time.Duration {
	return min(time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second, longestLease)
}

// refusal is the reason to wait while another operator holds a Lease.
func refusal(installation v1alpha1.Installation, other *coordinationv1.Lease) string {
	return fmt.Sprintf("this operator does not lead: another one of the Vidra installation %q leads in the namespace %s, where %s holds the Lease %s: "+
		"both would reconcile the same VidraResources. Remove one of them, or give one --installation=NAME",
		installation, other.Namespace, *other.Spec.HolderIdentity, other.Name)
}
