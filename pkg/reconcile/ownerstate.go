package reconcile

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/contention"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// failure is why an object is not as it should be.
type failure struct {
	reason  string
	message string
}

// vrState is what is known of a VidraResource and its objects between two reconciles, as far
// as deciding needs it. Reconciles of one VidraResource do not overlap, so it has no lock.
type vrState struct {
	uid types.UID
	// status as it was last written. The cache may lag behind it.
	status v1alpha1.VidraResourceStatus
	// inherited is the drift that the status had when the state was made. inheritedInPart
	// reports that it may have had more.
	inherited       map[v1alpha1.Subject]string
	inheritedInPart bool
	// unjudged reports that the status calls the objects drifted, and that no reconcile of this
	// process has compared all of them: their watches have not synced.
	unjudged bool
	// keys seal the digests of sensitive objects in the status.
	keys seal.Keys

	// generation that the fields below were read from.
	generation int64
	// objects has the states of all objects, those in manifest and those in others. manifest
	// are those that the manifest has, in the order in which they are applied.
	objects          map[identity]*objectState
	manifest, others []*objectState
	unresolved       []unresolved
	// reread reports that what was read is to be read again: a kind is gone.
	reread bool
	// stalled is why generation cannot be read; nil if it can.
	stalled *failure
	// unmatched are the ignore rules that match nothing.
	unmatched []string
	// waiting is since when objects wait for kinds that the manifest defines.
	waiting time.Time

	// watches are the states of the watches at the last reconcile of all objects.
	watches map[watchregistry.Key]watchregistry.Status
	// health is what is known of the health of the objects; nil if nothing is.
	health *healthReport
	// schedule is when there is something to do without a cause.
	schedule schedule

	// pendingEvents are the changes that no Event has reported yet.
	pendingEvents []events.Change
	// heals is the number of reverts that the status does not count yet.
	heals    int64
	lastHeal *v1alpha1.Heal
	healedAt metav1.Time
}

// ownerState is all that is known of a VidraResource between two reconciles.
type ownerState struct {
	vrState
	// outdated is the UID if the state is to be made anew, from the cache.
	outdated types.UID
	// weight is that of all objects of the manifest.
	weight int64
	// bodies counts the bodies of the objects; nil if they are few. dropped reports that
	// they are not kept, so that the manifest is read again by the next reconcile.
	bodies  *keptBodies
	dropped bool

	// sources are the versions of what spec.manifestFrom names that were read.
	sources map[sourceKey]string
	// attempted is the generation of the last reconcile, and unread is why the last attempt
	// to read the manifest failed; nil if it did not.
	attempted int64
	unread    *failure
	// unreadable holds the right that the last attempt to read the manifest failed for, with
	// the client.
	unreadable map[access]dynamic.Interface

	// unbegun reports that no reconcile of this process has considered the objects.
	unbegun bool
	// loaded reports that the index knows the inventory.
	loaded bool
	// written reports that this process has written the status before, and writes which
	// writes of it are its own.
	written bool
	writes  statusWrites
	// recoversInventory reports that the inventory was emptied before this process began.
	recoversInventory bool
	// postponed is the reconcile whose status is still to be written; nil if there is none.
	postponed *postponed
}

// newOwnerState makes the state of a VidraResource that this process reconciles for
// the first time.
func newOwnerState(vr *v1alpha1.VidraResource, keys seal.Keys) *ownerState {
	return &ownerState{
		vrState:           newVRState(vr, keys),
		recoversInventory: slices.Contains(vr.Finalizers, v1alpha1.InstallationOf(vr).Finalizer()) && len(vr.Status.ManagedResources) == 0,
	}
}

// newVRState returns what the status of a VidraResource says of its objects.
func newVRState(vr *v1alpha1.VidraResource, keys seal.Keys) vrState {
	s := vrState{
		uid: vr.UID, keys: keys, status: *vr.Status.DeepCopy(), objects: map[identity]*objectState{},
		inherited: map[v1alpha1.Subject]string{},
	}
	s.unjudged = meta.IsStatusConditionTrue(s.status.Conditions, v1alpha1.ConditionDrifted)
	s.inheritedInPart = s.status.UnlistedProblems > 0 || s.unjudged && len(s.status.Problems) == 0
	for _, p := range s.status.Problems {
		if p.Reason == v1alpha1.ReasonDriftDetected {
			s.inherited[p.Subject()] = p.Message
		}
	}
	for i := range s.status.ManagedResources {
		entry := s.status.ManagedResources[i]
		o := s.track(identityOf(&entry))
		o.entry = &entry
		s.unseal(o)
		if exempts(entry.BreakGlass, time.Now()) {
			o.drift = &drift{skipReason: exemption(entry.BreakGlass), unobserved: true}
		}
		if entry.State == v1alpha1.ObjectContended {
			o.contention = contention.Restored(time.Now())
		}
	}
	return s
}

// inherit adopts what a state before has not reported yet.
func (s *ownerState) inherit(old *ownerState) {
	s.pendingEvents, s.heals = slices.DeleteFunc(old.pendingEvents, foundAgain), old.heals
	s.lastHeal, s.healedAt, s.schedule.flush = old.lastHeal, old.healedAt, old.schedule.flush
}

// appliedBefore is what a claim on an object expects after a restart.
func appliedBefore(manager string, e *v1alpha1.ManagedResourceStatus) (trigger.Applied, bool) {
	digest, err := ownership.ParseDigest(e.Digest)
	if err != nil {
		return trigger.Applied{}, false
	}
	return trigger.Applied{Manager: manager, Digest: digest, UID: types.UID(e.UID)}, true
}

// ordered returns the objects in the order of the manifest, then those that are to be removed.
func (s *vrState) ordered() []*objectState {
	all := slices.Clone(s.manifest)
	waiting := s.waitingKinds()
	for _, u := range s.unresolved {
		if o := s.objects[u.id]; waiting[u.id] && o != nil {
			all = append(all, o)
			waiting[u.id] = false
		}
	}
	var removed []*objectState
	for _, o := range s.others {
		if _, waits := waiting[o.id]; o.entry != nil && !waits {
			removed = append(removed, o)
		}
	}
	slices.SortFunc(removed, func(a, b *objectState) int { return compareForRemoval(a.id, b.id) })
	return append(all, removed...)
}

// entries returns the inventory, in order.
func (s *vrState) entries() (entries []v1alpha1.ManagedResourceStatus) {
	for _, o := range s.ordered() {
		if o.entry != nil {
			entries = append(entries, s.seal(o))
		}
	}
	return entries
}

// waitingKinds are the objects of the manifest whose kinds are not served.
func (s *vrState) waitingKinds() map[identity]bool {
	waiting := make(map[identity]bool, len(s.unresolved))
	for _, u := range s.unresolved {
		o := s.objects[u.id]
		waiting[u.id] = o == nil || o.desired == nil // otherwise it is there in another version
	}
	return waiting
}
