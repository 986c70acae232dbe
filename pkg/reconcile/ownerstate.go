package reconcile

import (
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/healthcheck"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
	"github.com/vidra-operator/vidra/pkg/reconcile/status"
	"github.com/vidra-operator/vidra/pkg/source"
)

// resolvable are the reasons of problems that end when the manifest is read.
var resolvable = []string{v1alpha1.ReasonKindUnavailable, v1alpha1.ReasonOutOfScope, v1alpha1.ReasonProgressing}

// adopt stores the manifest that was read. Objects that waited for their kind are attempted again.
func (s *ownerState) adopt(generation int64, objects []*desired.Object, waiting []desired.Unresolved) {
	for o := range s.plan.All() {
		if o.Problem != nil && slices.Contains(resolvable, o.Problem.Reason) {
			o.Problem = nil
		}
	}
	s.plan.SetManifest(objects)
	s.plan.Generation, s.plan.Unresolved = generation, waiting
	s.plan.Reread, s.plan.Stalled = false, nil
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
	// outdated is the UID if the state is to be made anew, from the cache.
	outdated types.UID
	// attempt is the reconcile that runs, or ran last.
	attempt attempt
	// manifest is the manifest whose objects plan has, read are the last attempts to read it, and revision has its revisions.
	manifest manifestState
	read     manifestRead
	revision revisionState
	// checks compute the health of the objects.
	checks *healthcheck.Checks
	// inventory is the knowledge of this process about the inventory.
	inventory inventoryState
	// deletion is the deletion of the VidraResource.
	deletion deletionState
	// writes are the writes of the status.
	writes status.Writes
	// justHeld reports that this process has added the finalizer, and is still to write a status.
	justHeld bool
}

// attempt is one reconcile of a VidraResource.
type attempt struct {
	// generation is the generation that it reconciles, and revisions are the known revisions of the sources when it began.
	generation int64
	revisions  map[source.Key]string
	// unbegun reports that the reconciles of this process are still to consider the objects.
	unbegun bool
	// interrupted reports that it sends no requests about further objects.
	interrupted atomic.Bool
}

// begin notes the begin of the next reconcile.
func (a *attempt) begin(generation int64, revisions map[source.Key]string) {
	a.generation, a.revisions, a.unbegun = generation, revisions, false
	a.interrupted.Store(false)
}

// inventoryState is the knowledge of a process about an inventory.
type inventoryState struct {
	// loaded reports that the index knows the inventory.
	loaded bool
	// recovers reports that the inventory was emptied before this process began: its first state of the VidraResource, emptied, had a finalizer
	// without an inventory.
	recovers, emptied bool
}

// deletionState is the knowledge of a process about the deletion of a VidraResource.
type deletionState struct {
	// seen is the time of the first reconcile that found it.
	seen time.Time
	// noted is the generation whose deletion was noted.
	noted int64
}

// newOwnerState makes the state of a VidraResource that this process reconciles for
// the first time.
func newOwnerState(vr *v1alpha1.VidraResource, keys seal.Keys) *ownerState {
	emptied := slices.Contains(vr.Finalizers, v1alpha1.InstallationOf(vr).Finalizer()) && len(vr.Status.ManagedResources) == 0
	s := &ownerState{
		plan:      plan.NewState(vr, keys),
		revision:  revisionState{status: vr.Status.Revision.DeepCopy()},
		writes:    status.Writes{Begun: time.Now(), Read: vr.ResourceVersion},
		inventory: inventoryState{recovers: emptied, emptied: emptied},
	}
	for _, entry := range owners.FirstInventory(vr) {
		s.plan.Track(object.IdentityOf(&entry)).Entry = &entry
	}
	return s
}

// inherit adopts the unreported results of a former state.
func (s *ownerState) inherit(old *ownerState) {
	s.checks = old.checks
	s.inventory.recovers, s.inventory.emptied = s.inventory.recovers && old.inventory.emptied, old.inventory.emptied
	s.justHeld, s.deletion.noted = old.justHeld, old.deletion.noted
	old.plan.DropFoundAgain()
	s.plan.PendingEvents, s.plan.Unreported.Heals, s.plan.Unreported.History = old.plan.PendingEvents, old.plan.Unreported.Heals, old.plan.Unreported.History
	s.plan.Unreported.LastHeal, s.plan.Unreported.HealedAt, s.plan.Schedule.Flush = old.plan.Unreported.LastHeal, old.plan.Unreported.HealedAt, old.plan.Schedule.Flush
}
