package plan

import (
	"context"
	"time"

	"k8s.io/client-go/util/flowcontrol"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/contention"
	"github.com/vidra-operator/vidra/pkg/reconcile/metawatch"
	"github.com/vidra-operator/vidra/pkg/reconcile/metrics"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// Planner decides what one reconcile of a VidraResource does, from what is known of its objects.
// It sends no request.
type Planner struct {
	*Env
	*Settings
	VR    *v1alpha1.VidraResource
	State *State
	// Terminating reports whether a namespace is being deleted.
	Terminating func(ctx context.Context, namespace string) bool

	Now time.Time
	// Causes were taken from the trigger; those of PendingDrift are requeued.
	Causes       trigger.Causes
	PendingDrift map[trigger.ObjectKey]trigger.Cause
	// Scope is what this reconcile does.
	Scope Scope
	// First reports that this process considers the objects for the first time.
	First bool
	// SkippedBefore are the objects whose difference was not reverted until this reconcile.
	SkippedBefore map[object.Identity]*Drift
	// digestsOutdated reports that digests of another version are still to be replaced.
	digestsOutdated bool
	// Waits reports that something is not done while the VidraResource is suspended.
	Waits bool
	// healthDelayed reports that other objects are not healthy, which the status names later.
	healthDelayed bool
	// KindsNoticed reports that the VidraResource is enqueued when the API server begins to serve a kind.
	KindsNoticed bool
}

// Env is what all reconciles decide with. Only what it refers to is changed.
type Env struct {
	Watches Store
	Index   *trigger.Index
	Trigger *trigger.Factory
	Metrics *metrics.Metrics
	// Obstacles watch what refusals depend on. Optional.
	Obstacles *metawatch.Watches
	// Budget shares the heals of contended objects; Recompute spaces the applies that only
	// find out digests of this version.
	Budget    *contention.Budget
	Recompute flowcontrol.PassiveRateLimiter
}

// Store is what the watches keep of the objects.
type Store interface {
	Get(key watchregistry.Key, namespace, name string) (obj any, found, synced bool)
}
