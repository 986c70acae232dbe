package reconcile

import (
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/healthcheck"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
	"github.com/vidra-operator/vidra/pkg/reconcile/status"
	"github.com/vidra-operator/vidra/pkg/source"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
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
	s.weight, s.bodies, s.dropped = 0, nil, false
	for _, d := range objects {
		s.weight += d.Weight
	}
}

// ownerState is all that is known of a VidraResource between two reconciles.
type ownerState struct {
	plan plan.State
	// lane orders the work on the VidraResource.
	lane lane
	// outdated is the UID if the state is to be made anew, from the cache.
	outdated types.UID
	// weight is the weight of all objects of the manifest.
	weight int64
	// bodies counts the bodies of the objects; nil if they are few. dropped reports that
	// they are gone, so that the manifest is read again by the next reconcile.
	bodies  *keptBodies
	dropped bool

	// behind reports that the manifest is the applied one, while a newer one waits. unapplied reports that it was read while it had
	// to wait.
	behind, unapplied bool
	// revision has the revisions of the manifest.
	revision revisionState
	// waits reports that something of the manifest waits.
	waits bool

	// checks compute the health of the objects.
	checks *healthcheck.Checks

	// scope are the rights of Vidra at the destination at the read of the manifest.
	scope cluster.Scope
	// sources are the versions of the sources in spec.manifestFrom that were read.
	sources map[source.Key]string
	// kept identifies the manifest that is kept, as far as this process knows. recalled reports that the manifest is one that was kept, as
	// its sources are unreadable.
	kept     string
	recalled bool
	// awaitedSources are the unserved kinds of sources.
	awaitedSources []watchregistry.Kind
	// sourcesRead is when spec.manifestFrom was read last.
	sourcesRead time.Time
	// missingParts are the optional parts of spec.manifestFrom that were absent then.
	missingParts []desired.MissingPart
	// unreadRevisions are the known revisions of the sources at the last failed attempt to read the manifest.
	unreadRevisions map[source.Key]string
	// attempted is the generation of the last reconcile, and unread is why the last attempt
	// to read the manifest failed; else nil.
	attempted int64
	unread    *object.Failure
	// revisions are the known revisions of the sources when the last reconcile began.
	revisions map[source.Key]string
	// interrupted reports that the reconcile that runs sends no requests about further objects.
	interrupted atomic.Bool
	// unreadable holds the right that the last attempt to read the manifest failed for, with
	// the client.
	unreadable map[access.Right]dynamic.Interface

	// deletionSeen is when this process first saw that the VidraResource is being deleted.
	deletionSeen time.Time
	// deletionNoted is the generation whose deletion was noted.
	deletionNoted int64

	// justHeld reports that this process has added the finalizer, and is still to write a status.
	justHeld bool
	// unbegun reports that the reconciles of this process are still to consider the objects.
	unbegun bool
	// loaded reports that the index knows the inventory.
	loaded bool
	// writes are the writes of the status.
	writes status.Writes
	// recoversInventory reports that the inventory was emptied before this process began: its first state of the VidraResource, emptied, had a finalizer
	// without an inventory.
	recoversInventory, emptied bool
}

// usable reports whether the last read may be used while the manifest is unreadable.
func (s *ownerState) usable(p *pass) bool {
	return s.plan.Generation == p.plan.VR.Generation && s.plan.Stalled == nil && len(s.plan.Manifest) > 0 && !s.dropped && s.scope.Same(p.applier.Settings.Allowed)
}

// newOwnerState makes the state of a VidraResource that this process reconciles for
// the first time.
func newOwnerState(vr *v1alpha1.VidraResource, keys seal.Keys) *ownerState {
	s := &ownerState{
		plan:              plan.NewState(vr, keys),
		revision:          revisionState{status: vr.Status.Revision.DeepCopy()},
		writes:            status.Writes{Begun: time.Now(), Read: vr.ResourceVersion},
		recoversInventory: slices.Contains(vr.Finalizers, v1alpha1.InstallationOf(vr).Finalizer()) && len(vr.Status.ManagedResources) == 0,
	}
	s.emptied = s.recoversInventory
	for _, entry := range owners.FirstInventory(vr) {
		s.plan.Track(object.IdentityOf(&entry)).Entry = &entry
	}
	return s
}

// inherit adopts the unreported results of a former state.
func (s *ownerState) inherit(old *ownerState) {
	s.checks = old.checks
	s.recoversInventory, s.emptied, s.justHeld, s.deletionNoted = s.recoversInventory && old.emptied, old.emptied, old.justHeld, old.deletionNoted
	old.plan.DropFoundAgain()
	s.plan.PendingEvents, s.plan.Unreported.Heals, s.plan.Unreported.History = old.plan.PendingEvents, old.plan.Unreported.Heals, old.plan.Unreported.History
	s.plan.Unreported.LastHeal, s.plan.Unreported.HealedAt, s.plan.Schedule.Flush = old.plan.Unreported.LastHeal, old.plan.Unreported.HealedAt, old.plan.Schedule.Flush
}
