package reconcile

import (
	"context"
	"maps"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/metawatch"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
)

const (
	// maxWatchedObstacles is the number of watches on obstacles, of all VidraResources together.
	maxWatchedObstacles = 512
	// obstacleDelay is the delay of an attempt after an obstacle was created or deleted, and obstacleChangeDelay after it was changed:
	// a user may change an unmanaged object at any rate.
	obstacleDelay       = time.Second
	obstacleChangeDelay = 10 * time.Second
	// obstacleBurst is how many created or deleted obstacles of a VidraResource have an attempt after obstacleDelay, and then one in each
	// obstacleChangeDelay: an attempt at a Namespace lists all that it holds.
	obstacleBurst = 6
)

// rolesOf returns the roles and bindings of a right.
func rolesOf(right access.Right) []metawatch.Key {
	return metawatch.Roles(right.Subject.Cluster, right.Namespaces()...)
}

// rolesWatched reports whether all roles and bindings of a right are watched.
func (r *Reconciler) rolesWatched(right access.Right) bool {
	return !slices.ContainsFunc(rolesOf(right), func(key metawatch.Key) bool {
		_, known := r.Watching.obstacles.State(key)
		return !known
	})
}

// obstacleChanged retries refused writes after a change of an object that they depended on.
func (r *Reconciler) obstacleChanged(key metawatch.Key, existence bool) {
	r.recheckRights(key)
	for _, owner := range r.Watching.obstacles.Owners(key) {
		delay := obstacleChangeDelay
		if s := r.states.of(owner); existence && s != nil && s.soon.TryAccept() {
			delay = obstacleDelay
		}
		r.Watching.Trigger.EnqueueAfter(delay, owner)
	}
}

// recheckRights asks for the missing rights of roles and bindings, after a change or the end of their watch.
func (r *Reconciler) recheckRights(key metawatch.Key) {
	if key.GVR.Group == rbacv1.GroupName {
		r.Watching.grants.Recheck(key.Cluster, key.Namespace)
	}
}

// awaitRefused enqueues the VidraResource at the end of refusals; missing are the rights whose roles are watched, too.
func (p *pass) awaitRefused(ctx context.Context, missing map[access.Right]dynamic.Interface) {
	roles := sets.New[metawatch.Key]()
	for right := range missing {
		roles.Insert(rolesOf(right)...)
	}
	p.plan.AwaitRefused(p.applier.Destination.Metadata(), maps.Keys(roles))
	p.noteRivals(ctx)
}

// noteRivals has the VidraResource enqueued at the end of those that had its applies refused: no event of an object may show that. It is enqueued now
// if one of them has ended since its refusal. The cache of a shard lacks the VidraResources of other shards: a resync retries their refusals.
func (p *pass) noteRivals(ctx context.Context) {
	owner := p.plan.Settings.Claimant.Owner
	added := p.reconciler.related.rivals.Set(owner, func(yield func(string) bool) {
		for o := range p.state.plan.Objects.All() {
			if o.Attempts.Refused != nil && o.Attempts.Refused.Other != "" && !yield(o.Attempts.Refused.Other) {
				return
			}
		}
	})
	if p.reconciler.Assignment.Elsewhere == nil && slices.ContainsFunc(added, func(name string) bool {
		other, err := owners.Cached(ctx, p.reconciler.Clients.Client, name)
		return err == nil && other == nil
	}) {
		p.reconciler.Watching.Trigger.EnqueueRetry(owner)
	}
}
