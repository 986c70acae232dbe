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

// Planner decides about the work of one reconcile of a VidraResource, from the knowledge about its objects. It sends no
// request.
type Planner struct {
	Env      *Env
	Settings *Settings
	VR       *v1alpha1.VidraResource
	State    *State
	// Terminating reports whether a namespace is being deleted.
	Terminating func(ctx context.Context, namespace string) bool

	Now time.Time
	// Causes were taken from the trigger.
	Causes trigger.Causes
	// Scope is the scope of this reconcile.
	Scope Scope
	// Revised reports that the spec, or the content of a source, differs from the last read, or that this could not be read.
	Revised bool
	// First reports that this process considers the objects for the first time.
	First    bool
	Findings Findings
}

// Findings are the findings of a reconcile until its end.
type Findings struct {
	// PendingDrift are the causes that are requeued.
	PendingDrift map[trigger.ObjectKey]trigger.Cause
	// SkippedBefore are the objects whose difference has stayed until this reconcile.
	SkippedBefore map[object.Identity]*Drift
	// Waits reports that work waits while the VidraResource is suspended.
	Waits bool
	// KindsNoticed reports that the VidraResource is enqueued when the API server begins to serve a kind.
	KindsNoticed bool
}

// stored returns the stored form of an object in the store of its watch.
func (p *Planner) stored(key trigger.ObjectKey) (obj any, found, synced bool) {
	return p.Env.Watches.Get(p.Settings.WatchKey(key), key.Namespace, key.Name)
}

// Env is shared by the decisions of all reconciles. Only the values behind its fields change.
type Env struct {
	Watches Store
	Index   *trigger.Index
	Trigger *trigger.Factory
	Metrics *metrics.Metrics
	// Obstacles watch the objects that refusals depend on.
	Obstacles *metawatch.Watches
	// Budget shares the heals of contended objects; Recompute spaces the applies that only
	// find out digests of this version.
	Budget    *contention.Budget
	Recompute flowcontrol.PassiveRateLimiter
}

// Store has the stored form of watched objects.
type Store interface {
	Get(key watchregistry.Key, namespace, name string) (obj any, found, synced bool)
}
