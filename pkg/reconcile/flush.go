package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/parallel"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Flush ends the Reconciler, and reports the unreported results of reconciles:
// of each VidraResource, it writes the heals into the status, then records the
// Events. Reconciles that begin later end at once. Flush waits for those that run, at
// most until ctx ends, and must only be called by the leader, which may
// write statuses. Its error names the unreported rest.
func (r *Reconciler) Flush(ctx context.Context) error {
	return r.flush(ctx, func(owner trigger.Owner, s *ownerState) error { return r.flushHeals(ctx, owner, s) })
}

// FlushEvents is Flush without writes of the status, so that a process that
// has stopped leading may call it. Its error names the heals that no status counts, and is
// nil if Flush has reported everything before.
func (r *Reconciler) FlushEvents(ctx context.Context) error {
	return r.flush(ctx, func(owner trigger.Owner, s *ownerState) error {
		if s.plan.Reports.Unreported.Heals > 0 {
			return fmt.Errorf("the status of VidraResource %s does not count its last heals: %d", owner.Name, s.plan.Reports.Unreported.Heals)
		}
		return nil
	})
}

// flush ends the Reconciler, calls count for each VidraResource, and records the Events.
func (r *Reconciler) flush(ctx context.Context, count func(trigger.Owner, *ownerState) error) error {
	states, err := r.states.end(ctx)
	if err != nil {
		return err
	}
	r.states.flushing.Lock()
	defer r.states.flushing.Unlock()
	owners := slices.Collect(maps.Keys(states))
	failed := make([]error, len(owners))
	parallel.Do(r.limit(), len(owners), func(i int) { failed[i] = count(owners[i], states[owners[i]]) })
	for owner, s := range states {
		r.flushEvents(owner, s)
	}
	return errors.Join(failed...)
}

// reportLast reports the results of reconciles of a VidraResource that has left the shard, before it is forgotten.
func (r *Reconciler) reportLast(ctx context.Context, owner trigger.Owner) {
	s := r.states.of(owner)
	if s == nil || r.Assignment.Shard == "" {
		return
	}
	s.lane.enter()
	defer s.lane.leave()
	if err := r.flushHeals(ctx, owner, s); err != nil {
		log.FromContext(ctx).Error(err, "Another shard does not count the last heals")
	}
	r.flushEvents(owner, s)
}

// flushHeals writes the heals into a status, without the edits that the next process lists.
func (r *Reconciler) flushHeals(ctx context.Context, owner trigger.Owner, s *ownerState) error {
	s.plan.DropFoundAgain()
	if !s.plan.Unwritten() {
		return nil
	}
	before := s.plan.Status
	if cached := (&v1alpha1.VidraResource{}); !s.writes.Written && r.Clients.Client.Get(ctx, owner, cached) == nil { // the process before may have written it late
		before = cached.Status
	}
	unreported := s.plan.TakeUnreported()
	written := unreported.AddTo(before)
	var err error
	s.lane.apart(func() {
		_, err = r.patchStatus(ctx, owner.Name, s.plan.UID, before, written, "")
		err = client.IgnoreNotFound(err)
	})
	if err != nil {
		s.plan.ReturnUnreported(unreported)
		return fmt.Errorf("write the last heals of VidraResource %s: %w", owner.Name, object.WithoutValues(err, ownership.Disclosure{})) // the manifest may be unknown
	}
	s.plan.Status = written
	return nil
}

// flushEvents records the Events of a reconcile whose status write failed, without those that the next process records.
func (r *Reconciler) flushEvents(owner trigger.Owner, s *ownerState) {
	s.plan.DropFoundAgain()
	regarding := corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Name: owner.Name, UID: s.plan.UID,
	}
	r.record(owner, regarding, s.plan.Status, s.plan.Status, s.plan.Reports.Events)
	s.plan.Reports.Events = nil
}
