package reconcile

import (
	"context"
	"time"

	"k8s.io/client-go/util/flowcontrol"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/contention"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// planner decides what one reconcile of a VidraResource does, from what is known of its objects.
// It sends no request.
type planner struct {
	*planEnv
	*settings
	vr    *v1alpha1.VidraResource
	state *vrState
	// terminating reports whether a namespace is being deleted.
	terminating func(ctx context.Context, namespace string) bool

	now time.Time
	// causes were taken from the trigger; those of pendingDrift are requeued.
	causes       trigger.Causes
	pendingDrift map[trigger.ObjectKey]trigger.Cause
	// scope is what this reconcile does.
	scope scope
	// first reports that this process considers the objects for the first time.
	first bool
	// skippedBefore are the objects whose difference was not reverted until this reconcile.
	skippedBefore map[identity]*drift
	// digestsOutdated reports that digests of another version are still to be replaced.
	digestsOutdated bool
	// waits reports that something is not done while the VidraResource is suspended.
	waits bool
	// healthDelayed reports that other objects are not healthy, which the status names later.
	healthDelayed bool
	// heldUntil is when the first break-glass ends that keeps an object from being removed.
	heldUntil time.Time
}

// planEnv is what all reconciles decide with. Only what it refers to is changed.
type planEnv struct {
	Watches Store
	Index   *trigger.Index
	Trigger *trigger.Factory
	Metrics *Metrics
	// budget shares the heals of contended objects; recompute spaces the applies that only
	// find out digests of this version.
	budget    *contention.Budget
	recompute flowcontrol.PassiveRateLimiter
}

// Store is what the watches keep of the objects.
type Store interface {
	Get(key watchregistry.Key, namespace, name string) (obj any, found, synced bool)
}
