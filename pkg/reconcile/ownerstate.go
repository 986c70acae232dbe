package reconcile

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/healthcheck"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
	"github.com/vidra-operator/vidra/pkg/reconcile/status"
	"github.com/vidra-operator/vidra/pkg/source"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// resolvable are the reasons of problems that end when the manifest is read.
var resolvable = []string{v1alpha1.ReasonKindUnavailable, v1alpha1.ReasonOutOfScope, v1alpha1.ReasonProgressing}

// adopt stores the manifest that was read. Objects that waited for their kind are attempted again. Refusals stay: while a kind is unserved, each retry reads
// the manifest, and nothing that is refused would rest.
func (s *ownerState) adopt(generation int64, objects []*desired.Object, waiting []desired.Unresolved) {
	for o := range s.plan.Objects.All() {
		if o.Problem != nil && slices.Contains(resolvable, o.Problem.Reason) {
			o.Problem = nil
		}
	}
	s.plan.Objects.SetManifest(objects)
	s.plan.Objects.SetUnresolved(waiting)
	s.plan.Read = plan.Read{Generation: generation}
	s.manifest.bodies = bodies{}
	for _, d := range objects {
		s.manifest.bodies.weight += d.Weight
	}
}

// ownerState is all that is known of a VidraResource between two reconciles.
type ownerState struct {
	plan plan.State
	// lane orders the work on the VidraResource.
	lane lane
	// remake is the reason to make the state anew.
	remake remakeState
	// attempt is the reconcile that runs, or ran last.
	attempt attempt
	// manifest is the manifest whose objects plan has, read are the last attempts to read it, and revision has its revisions.
	manifest manifestState
	read     sourceReads
	revision revisionState
	// checks compute the health of the objects.
	checks *healthcheck.Checks
	// inventory is the knowledge of this process about the inventory.
	inventory inventoryState
	// deletion is the deletion of the VidraResource.
	deletion deletionState
	// writes are the writes of the status.
	writes status.Writes
	// soon spaces the early attempts after new and deleted obstacles.
	soon flowcontrol.PassiveRateLimiter
}

// remakeState is the reason to make a state anew.
type remakeState struct {
	// outdated reports that it is to be made anew, from the cache, and restored that etcd was restored from a backup.
	outdated, restored bool
}

// attempt is one reconcile of a VidraResource.
type attempt struct {
	// generation is the generation that it reconciles, and revisions are the known revisions of the sources when it began.
	generation int64
	revisions  map[source.Key]string
	// interrupted reports that it sends no requests about further objects.
	interrupted atomic.Bool
	// unbegun reports that no reconcile of this process has considered the objects yet.
	unbegun bool
}

// isOfAnother reports whether the attempt is of another generation, or of other revisions of the sources.
func (a *attempt) isOfAnother(generation int64, revisions map[source.Key]string) bool {
	return a.generation != generation || !maps.Equal(a.revisions, revisions)
}

// inventoryState is the knowledge of a process about an inventory.
type inventoryState struct {
	// loaded reports that the index knows the inventory.
	loaded bool
	// emptied reports that the first state of the VidraResource in this process had a finalizer without an inventory, before its finalization
	// ended. recovers reports that its objects are still to be found again.
	recovers, emptied bool
	// justHeld reports that this process has added the finalizer, and is still to write a status.
	justHeld bool
}

// deletionState is the knowledge of a process about the deletion of a VidraResource.
type deletionState struct {
	// seen is the time of the first reconcile that found it, and ordered the time since which only the order of deletions, if anything, delays the removal of
	// the objects.
	seen, ordered time.Time
	// noted is the generation whose deletion was noted.
	noted int64
}

// newOwnerState makes the state of a VidraResource that this process reconciles for
// the first time.
func newOwnerState(vr *v1alpha1.VidraResource, keys seal.Keys) *ownerState {
	emptied := slices.Contains(vr.Finalizers, v1alpha1.InstallationOf(vr).Finalizer()) && len(vr.Status.ManagedResources) == 0 && !finalized(vr)
	s := &ownerState{
		plan:      plan.NewState(vr, keys),
		revision:  revisionState{status: revisionsIn(vr, keys)},
		writes:    status.Writes{Begun: time.Now(), Read: vr.ResourceVersion},
		inventory: inventoryState{recovers: emptied, emptied: emptied},
		soon:      flowcontrol.NewTokenBucketPassiveRateLimiter(float32(time.Second)/float32(obstacleChangeDelay), obstacleBurst),
	}
	for _, entry := range owners.FirstInventory(vr) {
		s.plan.Objects.Track(object.IdentityOf(&entry)).Entry = &entry
	}
	return s
}

// finalized reports whether the status of a VidraResource shows the end of its objects: an operator before this one was still to remove the finalizer.
func finalized(vr *v1alpha1.VidraResource) bool {
	ready := meta.FindStatusCondition(vr.Status.Conditions, v1alpha1.ConditionReady)
	return !vr.DeletionTimestamp.IsZero() && vr.Status.ObservedGeneration == vr.Generation && vr.Status.Objects == 0 && ready != nil &&
		(ready.Reason == v1alpha1.ReasonDeleting || ready.Reason == v1alpha1.ReasonDeletionBlocked)
}

// isOf reports whether the state belongs to a VidraResource. The lock of all states must be held, or the VidraResource be reconciled.
func (s *ownerState) isOf(vr *v1alpha1.VidraResource) bool {
	return s.plan.UID == vr.UID && !s.remake.outdated
}

// inherit adopts the unreported results of a former state, and its knowledge about the inventory, the finalizer and the deletion.
func (s *ownerState) inherit(old *ownerState) {
	s.checks = old.checks
	s.inventory.recovers, s.inventory.emptied = s.inventory.recovers && old.inventory.emptied, old.inventory.emptied
	s.inventory.justHeld, s.deletion = old.inventory.justHeld, old.deletion
	old.plan.DropFoundAgain()
	s.plan.Reports.Events, s.plan.Reports.Unreported, s.plan.Schedule.Flush = old.plan.Reports.Events, old.plan.Reports.Unreported, old.plan.Schedule.Flush
	if !old.remake.restored {
		return
	}
	for _, o := range old.plan.Objects.Inventory() { // the status of the backup lacks later objects of other clusters
		if is := s.plan.Objects.Track(o.ID); is.Entry == nil {
			is.Entry = object.NewEntry(o.ID, object.GVKOf(o.Entry))
			is.Entry.UID, is.Entry.Aggregated, is.Entry.RemoveAs = o.Entry.UID, o.Entry.Aggregated, o.Entry.RemoveAs
			is.Entry.Sensitive = o.Entry.Sensitive
		}
	}
}

// ownerStates has the states of all VidraResources, and the reconciles and heals that work on them. The zero value is ready. It is safe for
// concurrent use.
type ownerStates struct {
	// mu guards all and ended, and remake of each state.
	mu  sync.Mutex
	all map[trigger.Owner]*ownerState
	// ended reports that no reconcile begins any more; running are those that run. None is
	// added once ended is true.
	ended   bool
	running sync.WaitGroup
	// flushing is held during the report of the last results of reconciles.
	flushing sync.Mutex
}

// begin reports whether a reconcile may begin; running.Done must be called when it ends.
func (s *ownerStates) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.running.Add(1)
	return true
}

// end prevents reconciles from beginning, waits until all have ended or ctx ends, and returns the states of all VidraResources.
func (s *ownerStates) end(ctx context.Context) (map[trigger.Owner]*ownerState, error) {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	idle := make(chan struct{})
	go func() {
		s.running.Wait()
		close(idle)
	}()
	select {
	case <-idle:
	case <-ctx.Done():
		return nil, fmt.Errorf("reconciles still run, and what they did is not reported: %w", ctx.Err())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.all), nil
}

// of returns the state of a VidraResource, or nil.
func (s *ownerStates) of(owner trigger.Owner) *ownerState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[owner]
}

// current returns the state that belongs to a VidraResource as the cache has it; nil if it is to be made.
func (s *ownerStates) current(owner trigger.Owner, vr *v1alpha1.VidraResource) *ownerState {
	s.mu.Lock()
	defer s.mu.Unlock()
	if is := s.all[owner]; is != nil && is.isOf(vr) && !is.writes.Outdated(is.plan.Status, vr) {
		return is
	}
	return nil
}

// renew makes the state of a VidraResource.
func (s *ownerStates) renew(owner trigger.Owner, vr *v1alpha1.VidraResource, keys seal.Keys) *ownerState {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[trigger.Owner]*ownerState{}
	}
	is := newOwnerState(vr, keys)
	if old := s.all[owner]; old != nil && old.plan.UID == vr.UID {
		is.inherit(old)
	}
	s.all[owner] = is
	return is
}

// uses reports whether a state belongs to a VidraResource, and is still in use.
func (s *ownerStates) uses(owner trigger.Owner, is *ownerState, vr *v1alpha1.VidraResource) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[owner] == is && is.isOf(vr)
}

// restart has the next reconcile of a VidraResource begin from the contents of the cache. restored reports that etcd was restored from a backup.
func (s *ownerStates) restart(owner trigger.Owner, restored bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if is := s.all[owner]; is != nil {
		is.remake.outdated, is.remake.restored = true, is.remake.restored || restored
	}
}

// forget forgets the state of a VidraResource.
func (s *ownerStates) forget(owner trigger.Owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, owner)
}

// seen notes an event that shows another status of a VidraResource, and reports whether another client wrote it.
func (s *ownerStates) seen(vr *v1alpha1.VidraResource) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := s.all[trigger.Owner{Name: vr.Name}]
	return is != nil && is.isOf(vr) && is.writes.Seen(vr.ResourceVersion)
}

// foreign returns the last unrestored write of the status of a VidraResource by another client, or 0. The cache has that write.
func (s *ownerStates) foreign(owner trigger.Owner) int {
	if is := s.of(owner); is != nil {
		return is.writes.Foreign()
	}
	return 0
}
