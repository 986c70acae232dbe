package reconcile

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/manifest"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/trigger"
	"github.com/vidra-operator/vidra/pkg/watchregistry"
)

// identity is what makes two mentions of an object the same object. The
// version is not part of it: an object is the same in every version.
type identity struct {
	schema.GroupKind
	namespace, name string
}

// desired is an object as the manifest has it, ready to be applied.
type desired struct {
	id    identity
	gvk   schema.GroupVersionKind
	key   trigger.ObjectKey
	stage manifest.Stage
	// body is the applied configuration: the object with our label and
	// annotation, as JSON.
	body []byte
	// provides is the kind that the object defines, if it is a
	// CustomResourceDefinition.
	provides schema.GroupKind
	// ignored are the ignore rules for the object; nil if there are none.
	ignored *ignored
	// exempt are the same rules, with all their paths.
	exempt []managedPaths
	// sensitive says that its values must not be shown, and withholds that some must not.
	sensitive, withholds bool
	// setsBreakGlass says that the manifest gives it a break-glass annotation.
	setsBreakGlass bool
	// configuration identifies the body and the rules.
	configuration string
	// weight is the memory that it takes to parse the body; see heavyShare.
	weight int64
}

// unresolved is an object whose kind is not served.
type unresolved struct {
	// id has the namespace that the manifest gives, which may be none.
	id  identity
	gvk schema.GroupVersionKind
	why failure
}

// is says whether the object may be the one of the inventory.
func (u unresolved) is(id identity) bool {
	return u.id.GroupKind == id.GroupKind && u.id.name == id.name &&
		(u.id.namespace == "" || id.namespace == "" || u.id.namespace == id.namespace) // cluster-scoped ones may name one, too
}

// failure is why an object is not as it should be.
type failure struct {
	reason  string
	message string
}

// session is what is known of a VidraResource between two passes. Passes over
// one VidraResource do not overlap, so it has no lock.
type session struct {
	uid types.UID
	// outdated is the UID where the session is to begin anew, from the cache.
	outdated types.UID
	// status as it was last written. The cache may lag behind it.
	status v1alpha1.VidraResourceStatus
	// inherited are the messages about drift that the status had when the session began.
	inherited []string
	// unjudged reports that the status calls the objects drifted, and that no reconcile of this
	// process has looked at all of them: their watches have not synced.
	unjudged bool

	// generation that the fields below were read from.
	generation int64
	objects    []*desired
	byID       map[identity]*desired
	// weight is that of all objects.
	weight int64
	// bodies counts the bodies of the objects; nil if they are few. dropped reports that
	// they are not kept, so that the manifest is read again by the next reconcile.
	bodies     *keptBodies
	dropped    bool
	unresolved []unresolved
	// reread says that what was read is to be read again: a kind is gone.
	reread bool
	// stalled is why generation cannot be read; nil if it can.
	stalled *failure

	// sources are the versions of what spec.manifestFrom names that were read.
	sources map[sourceKey]string
	// health is what is known of the health of the objects; nil if nothing is. seen
	// is what requests told of it.
	health *healthReport
	seen   map[identity]trigger.Health
	// healthUntil is until when other objects that are not healthy are not told.
	healthUntil time.Time
	// warnings are what the API server says of the objects besides, of those that this
	// process has applied, and heard are those.
	warnings map[identity][]string
	heard    map[identity]bool
	// attempted is the generation of the last pass, and unread is why the manifest could
	// not be read when that was tried last.
	attempted int64
	unread    *failure
	// refused holds the rights that requests about objects failed for, and unreadable
	// the one that the last attempt to read the manifest failed for, with the client.
	refused    map[identity][]access
	unreadable map[access]dynamic.Interface

	// inventory holds every object that is ours or about to be.
	inventory map[identity]*v1alpha1.ManagedResourceStatus
	// failures holds why objects are not as they should be.
	failures map[identity]failure
	// drifts holds the objects that are left as somebody changed them, and
	// contentions those that were healed within the last minute.
	drifts      map[identity]drift
	contentions map[identity]*contention
	// additions say of objects what people added and what is left so.
	additions map[identity]string
	// unmatched are the ignore rules that match nothing.
	unmatched []string
	// watches holds the states of the watches at the last full look.
	watches map[watchregistry.Key]watchregistry.Status

	// unseen are the objects that were applied and that no watch has seen so yet, with
	// whether their watch is in order.
	unseen map[identity]bool
	// unbegun says that no pass got as far as to look at the objects.
	unbegun bool
	// keys seal what the status says of sensitive objects; sealed remembers what it says.
	keys   *digestKeys
	sealed map[identity]*sealedEntry
	// loaded says that the index knows the inventory.
	loaded bool
	// written says that this process has written the status before, and writes which
	// writes of it are its own.
	written bool
	writes  statusWrites
	// recovers says that the inventory was emptied before this process began.
	recovers bool
	// missing holds since when the kinds of objects that are to be removed have
	// not been served.
	missing map[identity]time.Time
	// waiting is since when objects wait for kinds that the manifest defines.
	waiting time.Time

	// retries counts the attempts in a row that left something to be retried.
	retries int
	// nextResync and nextRetry are when there is something to do without a
	// cause; nextRetry is zero when nothing has to be retried.
	nextResync, nextRetry time.Time

	// nextBackstop is when the objects are compared with the API server; doubts are the
	// versions of those that differed then, to be looked at again at doubtUntil.
	nextBackstop, doubtUntil time.Time
	doubts                   map[identity]string

	// untold are the changes that no Event tells of yet.
	untold []events.Change

	// heals are those that the status does not tell of yet.
	heals      int64
	lastHeal   *v1alpha1.Heal
	healedAt   metav1.Time
	healsSince time.Time
}

// newSession makes the session of a VidraResource that this process sees for
// the first time.
func newSession(vr *v1alpha1.VidraResource, keys *digestKeys) *session {
	s := &session{
		uid:         vr.UID,
		keys:        keys,
		sealed:      map[identity]*sealedEntry{},
		status:      *vr.Status.DeepCopy(),
		inventory:   map[identity]*v1alpha1.ManagedResourceStatus{},
		failures:    map[identity]failure{},
		missing:     map[identity]time.Time{},
		drifts:      map[identity]drift{},
		additions:   map[identity]string{},
		contentions: map[identity]*contention{},
		unseen:      map[identity]bool{},
		warnings:    map[identity][]string{},
		heard:       map[identity]bool{},
		refused:     map[identity][]access{},
		doubts:      map[identity]string{},
	}
	s.unjudged = meta.IsStatusConditionTrue(s.status.Conditions, v1alpha1.ConditionDrifted)
	s.recovers = slices.Contains(vr.Finalizers, v1alpha1.InstallationOf(vr).Finalizer()) && len(vr.Status.ManagedResources) == 0
	for _, kind := range []string{v1alpha1.ConditionDrifted, v1alpha1.ConditionReady} {
		if c := meta.FindStatusCondition(s.status.Conditions, kind); c != nil {
			s.inherited = append(s.inherited, c.Message)
		}
	}
	for i := range s.status.ManagedResources {
		entry := s.status.ManagedResources[i]
		id := identityOf(&entry)
		s.unseal(&entry)
		s.inventory[id] = &entry
		if exempts(entry.BreakGlass, time.Now()) {
			s.drifts[id] = drift{leave: exemption(entry.BreakGlass), unobserved: true}
		}
		if entry.State == v1alpha1.ObjectContended {
			s.contentions[id] = restoredContention(time.Now())
		}
	}
	return s
}

// inherit takes over what a session before has done and not told yet.
func (s *session) inherit(old *session) {
	s.untold, s.heals = slices.DeleteFunc(old.untold, isFoundAgain), old.heals
	s.lastHeal, s.healedAt, s.healsSince = old.lastHeal, old.healedAt, old.healsSince
}

func identityOf(e *v1alpha1.ManagedResourceStatus) identity {
	gvk := gvkOf(e)
	return identity{GroupKind: gvk.GroupKind(), namespace: e.Namespace, name: e.Name}
}

// identityIn is what an object says of itself.
func identityIn(u *unstructured.Unstructured) identity {
	return identity{GroupKind: u.GroupVersionKind().GroupKind(), namespace: u.GetNamespace(), name: u.GetName()}
}

func gvkOf(e *v1alpha1.ManagedResourceStatus) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(e.APIVersion, e.Kind)
}

// entryOf makes the inventory entry of an object that is about to be created.
func entryOf(id identity, gvk schema.GroupVersionKind) *v1alpha1.ManagedResourceStatus {
	return &v1alpha1.ManagedResourceStatus{
		APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind,
		Namespace: id.namespace, Name: id.name, State: v1alpha1.ObjectPending,
	}
}

// referenceTo is how Events refer to an object.
func referenceTo(id identity, gvk schema.GroupVersionKind, uid types.UID) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind,
		Namespace: id.namespace, Name: id.name, UID: uid,
	}
}

// referenceToOwner is how Events refer to a VidraResource.
func referenceToOwner(vr *v1alpha1.VidraResource) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Name: vr.Name, UID: vr.UID,
	}
}

// appliedBefore is what a claim on an object expects after a restart.
func appliedBefore(manager string, e *v1alpha1.ManagedResourceStatus) (trigger.Applied, bool) {
	digest, err := ownership.ParseDigest(e.Digest)
	if err != nil {
		return trigger.Applied{}, false
	}
	return trigger.Applied{Manager: manager, Digest: digest, UID: types.UID(e.UID)}, true
}

// healed notes that an object was put back, for the status, which tells of it within
// healFlush, or later where heals are many.
func (s *session) healed(change events.Change, now time.Time, later time.Duration) {
	if since := now.Add(later); s.heals == 0 || since.Before(s.healsSince) {
		s.healsSince = since
	}
	s.heals++
	s.healedAt = metav1.NewTime(now)
	heal := &v1alpha1.Heal{Object: events.Name(change.Object)}
	for _, field := range change.Fields {
		paths := &heal.Fields
		if field.Kind == ownership.Added {
			paths = &heal.Added
		}
		if len(*paths) < maxHealFields {
			*paths = append(*paths, field.Path)
		}
		if heal.Manager == "" {
			heal.Manager = field.Manager
		}
	}
	s.lastHeal = heal
}

// maxHealFields is how many fields of a kind the status names of the last heal.
const maxHealFields = 10

// withHeals is status with the heals that it does not tell of yet.
func (s *session) withHeals(status v1alpha1.VidraResourceStatus) v1alpha1.VidraResourceStatus {
	if s.heals == 0 {
		return status
	}
	status = *status.DeepCopy()
	if status.Drift == nil {
		status.Drift = &v1alpha1.DriftStatus{}
	}
	status.Drift.Heals += s.heals
	status.Drift.LastHealTime = s.healedAt.DeepCopy()
	status.Drift.LastHeal = s.lastHeal
	return status
}

// entries is the inventory in the order of the manifest, then what is to be
// removed. order also has what is not in the inventory but can fail.
func (s *session) entries() (entries []v1alpha1.ManagedResourceStatus, order []identity) {
	listed := make(map[identity]struct{}, len(s.inventory))
	add := func(id identity) {
		if _, twice := listed[id]; twice {
			return
		}
		listed[id] = struct{}{}
		order = append(order, id)
		if entry := s.inventory[id]; entry != nil {
			entries = append(entries, s.seal(id, entry))
		}
	}
	for _, d := range s.objects {
		add(d.id)
	}
	for _, u := range s.unresolved {
		add(u.id)
	}
	for _, id := range slices.SortedFunc(maps.Keys(s.inventory), compareForRemoval) {
		add(id)
	}
	return entries, order
}
