package plan

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/breakglass"
	"github.com/vidra-operator/vidra/pkg/reconcile/contention"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/history"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/policy"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// State is the knowledge about a VidraResource and its objects between two reconciles, as far
// as deciding needs it. It has no lock of its own: a reconcile and the heals of single objects share
// the lock of the VidraResource.
type State struct {
	UID types.UID
	// Status as it was last written. The cache may lag behind it.
	Status v1alpha1.VidraResourceStatus
	// Inherited is the drift that the status had when the state was made.
	Inherited Inherited
	Origin    Origin
	// Keys seal the digests of sensitive objects in the status.
	Keys seal.Keys

	// Read is the last attempt to read the manifest.
	Read Read
	// Objects are the states of all objects.
	Objects Objects
	Remarks SpecRemarks

	Watching Watching
	// Health is the known health of the objects; nil if it is unknown.
	Health *HealthReport
	// Schedule is when there is something to do without a cause.
	Schedule Schedule
	Reports  Reports
}

// Origin is the origin of the applied objects, and their destination.
type Origin struct {
	Provenance Provenance
	// Destination is the present destination; Former has the kubeconfig before, and is in the status until the cluster of Destination is known.
	Destination, Former Destination
	// Emptied reports that the inventory in the status belongs to another cluster.
	Emptied bool
}

// SpecRemarks are warnings for users about a VidraResource, which change nothing.
type SpecRemarks struct {
	// Unmatched are the ignore rules that match nothing.
	Unmatched []string
	// NearLimit reports that the VidraResource takes most of the bytes that it may have.
	NearLimit bool
}

// Watching has the states of the watches of a VidraResource.
type Watching struct {
	// Watches are the states of the watches at the last reconcile of all objects.
	Watches map[watchregistry.Key]watchregistry.Status
	// FailingSources are the states of the watches of spec.manifestFrom that fail, by the names of the sources.
	FailingSources map[string]watchregistry.Status
}

// Reports are the results that are still to be reported.
type Reports struct {
	// Events are the changes that Events are still to report.
	Events     []events.Change
	Unreported Unreported
}

// Read is an attempt to read the manifest.
type Read struct {
	// Generation is the generation of the spec that was read; zero if the manifest has to be read.
	Generation int64
	// Stalled is the obstacle to reading Generation, or nil.
	Stalled *object.Failure
	// Again reports that the manifest is to be read again: a kind is gone, the shards have changed, or an account is allowed now.
	Again bool
}

// Provenance is the origin of applied objects, as the status has it.
type Provenance struct {
	// Shards are the shards in the labels of the objects, as far as those were applied.
	Shards []string
	// AppliedAs is the account that read the manifest last.
	AppliedAs *v1alpha1.AppliedAsStatus
	// Sources are the revisions of the artifacts that the manifest was last read from.
	Sources []v1alpha1.SourceStatus
}

// Destination identifies a destination, as the status has it. It is zero for the local cluster.
type Destination struct {
	// Kubeconfig identifies the kubeconfig, sealed.
	Kubeconfig string
	// ClusterUID is the identity of the cluster; empty if it is unknown.
	ClusterUID string
}

// Unreported are the heals and edits that are still to be written to the status.
type Unreported struct {
	// Heals is the number of reverts that the status is still to count.
	Heals    int64
	LastHeal *v1alpha1.Heal
	HealedAt metav1.Time
	// History are the edits that the status is still to list.
	History history.Pending
	// due is when the status was to be written, while it is being written.
	due time.Time
}

// NewState returns the state of the objects that the status of a VidraResource has.
func NewState(vr *v1alpha1.VidraResource, keys seal.Keys) State {
	s := State{
		UID: vr.UID, Keys: keys, Status: *vr.Status.DeepCopy(), Inherited: inherited(vr.Status),
		Origin: Origin{Provenance: Provenance{Shards: vr.Status.Shards, AppliedAs: vr.Status.AppliedAs.DeepCopy(), Sources: slices.Clone(vr.Status.Source)},
			Destination: Destination{Kubeconfig: vr.Status.KubeconfigDigest, ClusterUID: vr.Status.ClusterUID},
		},
	}
	for i := range s.Status.ManagedResources {
		entry := s.Status.ManagedResources[i]
		o := s.Objects.Track(object.IdentityOf(&entry))
		o.Entry = &entry
		s.unseal(o)
		if breakglass.Exempts(entry.BreakGlass, time.Now()) {
			o.Edits.Drift = &Drift{Decision: policy.Exempted(entry.BreakGlass), Unobserved: true}
		}
		if entry.State == v1alpha1.ObjectContended {
			o.Edits.Contention = contention.Restored(time.Now())
		}
	}
	return s
}

// Empty forgets all objects, which are in another cluster. The manifest has to be read again.
func (s *State) Empty() {
	s.Objects, s.Read.Generation, s.Health, s.Origin.Emptied = Objects{}, 0, nil, true
}

// SetAccount notes the account, as NAMESPACE/NAME, that a generation of the spec names, with the manifest of that generation; empty for
// Vidra itself. If one write replaced another account, that one removes the objects that this write or an earlier one took from
// the manifest, where the present account may not. The author of the write could use both accounts, as config/restricted
// requires. The author of a later write need not, so an object that leaves with that is not removed as the former account.
func (s *State) SetAccount(account string, generation int64) {
	was := s.Origin.Provenance.AppliedAs
	for _, o := range s.Objects.Manifest {
		if o.Entry != nil {
			o.Entry.RemoveAs = ""
		}
	}
	if s.Origin.Provenance.AppliedAs = nil; account != "" {
		s.Origin.Provenance.AppliedAs = &v1alpha1.AppliedAsStatus{ServiceAccount: account, Generation: generation}
	}
	if was == nil || was.ServiceAccount == account || generation > was.Generation+1 {
		return
	}
	waits := desired.MayBe(s.Objects.Unresolved)
	for _, o := range s.Objects.Others {
		if o.Entry != nil && o.Entry.RemoveAs == "" && !waits(o.ID) {
			o.Entry.RemoveAs = was.ServiceAccount
		}
	}
}

// AppliedBefore is the expectation of a claim on an object after a restart.
func AppliedBefore(manager string, e *v1alpha1.ManagedResourceStatus) (trigger.Applied, bool) {
	digest, err := ownership.ParseDigest(e.Digest)
	if err != nil {
		return trigger.Applied{}, false
	}
	return trigger.Applied{Manager: manager, Digest: digest, UID: types.UID(e.UID), Sensitive: ownership.Sensitivity(e.Sensitive)}, true
}

// Entries returns the inventory, sorted.
func (s *State) Entries() (entries []v1alpha1.ManagedResourceStatus) {
	all := s.Objects.ordered()
	entries = slices.Grow(entries, len(all)) // they are kept, so without room for more
	for _, o := range all {
		if o.Entry != nil {
			entries = append(entries, s.seal(o))
		}
	}
	return entries
}
