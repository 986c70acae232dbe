package owners

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// MaxOwners is how many VidraResources may own an object together. The next one is refused.
const MaxOwners = 16

// CoOwner is another VidraResource that owns an object, or is about to.
type CoOwner struct {
	// Name is empty for one of another installation that is in another cluster; see
	// OwnersElsewhere.
	Name, Manager string
	// Genuine reports that the fields of its manager in the object are, or may be, the fields that it applied there, because
	// an apply is under way, because another shard reconciles it, which reverts foreign ones, or because they are incomparable. Otherwise
	// another user of the API wrote under its name.
	Genuine bool
	// Intact reports that the object has all fields that it applied there, as far as its digest is comparable, or that an apply is under way.
	Intact bool
	// UnderWay reports that an apply of it may be under way, or still to be listed in its status: the object may show a part of its fields, or
	// none, and those that it shows may be its own. Of a VidraResource without events the status alone shows the end.
	UnderWay bool
	// Leaving reports that its latest manifest has dropped the object, or that it is being deleted: it
	// will release the object. It is known of the owners that Conflicting returns.
	Leaving bool
	// wanted is the object as its latest manifest has it; nil if that is unknown. Conflicting sets it.
	wanted *unstructured.Unstructured
	// Owns reports whether the object shows that it applied it, by the rule of Claimant.Owns. Otherwise
	// the object may be a copy that only has its annotation.
	Owns bool
	// Recorded reports whether its inventory, or this process, has the object as applied. Otherwise the object
	// may have its marks alone: it wants the object, which others own.
	Recorded bool
}

// Claimant is the identity of a VidraResource as an applier of objects.
type Claimant struct {
	Owner trigger.Owner
	// Installation is the installation of this operator; Manager is its field manager for the owner.
	Installation v1alpha1.Installation
	Manager      string
	// ShardLabels are the labels of the shards that reconcile the owner, if any.
	ShardLabels []string
	// WithoutKeys reports that the sealed digests of the own installation are incomparable, too, as with the rights of a user.
	WithoutKeys bool
}

// Finder finds the other VidraResources that own an object. It is safe for concurrent use.
type Finder struct {
	Claimant Claimant
	Index    *trigger.Index
	// VidraResources reads them from the cache.
	VidraResources client.Reader
	// Elsewhere reads those that the cache lacks, because they are of other shards; nil if it has all.
	Elsewhere client.Reader
	// Named knows which of them have an object in their manifest.
	Named *Named
	// MayTake reports whether a VidraResource may apply an object, with the rights of its account.
	MayTake func(ctx context.Context, vr *v1alpha1.VidraResource, key trigger.ObjectKey) (bool, error)
	// IsSame reports whether an object is also the object of its name at the destination of a VidraResource, which is another
	// URL.
	IsSame func(ctx context.Context, vr *v1alpha1.VidraResource, key trigger.ObjectKey, live *unstructured.Unstructured) (bool, error)

	// manifests has the last readings of the manifests of other VidraResources, as *manifestRead, by name.
	manifests sync.Map
}

// Identified returns the receivers whose object this is, the most certain ones first. The cluster of a receiver is asked for
// when the caller has rejected those before it.
func (a *Finder) Identified(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured, all []Receiver) iter.Seq[Receiver] {
	return func(yield func(Receiver) bool) {
		var unidentified []Receiver
		for _, receiver := range all {
			same := true
			if receiver.Elsewhere {
				if same, receiver.Unidentified = a.IsSame(ctx, receiver.VidraResource, key, live); receiver.Unidentified != nil {
					unidentified = append(unidentified, receiver)
					continue
				}
			}
			if same && !yield(receiver) {
				return
			}
		}
		for _, receiver := range unidentified {
			if !yield(receiver) {
				return
			}
		}
	}
}

// Conflicting is CoOwners for an object whose apply fails for a conflict: the wish of each is known from its latest manifest.
func (a *Finder) Conflicting(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured) ([]CoOwner, error) {
	lookup := a.lookup()
	all, err := a.coOwners(ctx, key, live, lookup)
	lookup.next()
	for i := range all {
		if vr, _, err := lookup.Get(ctx, all[i].Name); err == nil && vr != nil {
			id, is := object.IdentityIn(live), a.manifestOf(ctx, vr)
			all[i].Leaving = !vr.DeletionTimestamp.IsZero() || !a.Named.names(ctx, vr, is, id)
			if !all[i].Leaving {
				all[i].wanted = is.wanted(id)
			}
		}
	}
	return all, err
}

// manifestFor is the time for which a manifest counts that was read for another conflict: thousands of objects may conflict with one VidraResource.
const manifestFor = time.Second

// manifestRead is the manifest of a generation that was read last for a conflict.
type manifestRead struct {
	mu         sync.Mutex
	uid        types.UID
	generation int64
	ended      time.Time
	reading    reading
}

// manifestOf returns the manifest of a VidraResource, as it was read at most manifestFor ago. Conflicts at the same time share one reading.
func (a *Finder) manifestOf(ctx context.Context, vr *v1alpha1.VidraResource) reading {
	last, _ := a.manifests.LoadOrStore(vr.Name, &manifestRead{})
	m, _ := last.(*manifestRead) // only this function stores any
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.uid != vr.UID || m.generation != vr.Generation || time.Since(m.ended) >= manifestFor {
		m.reading = a.Named.read(ctx, vr, a.Named.Sources.Latest())
		a.Named.parseNow(m.reading) // so that the time counts from its end
		m.uid, m.generation, m.ended = vr.UID, vr.Generation, time.Now()
	}
	return m.reading
}

// CoOwners returns the other VidraResources that own an object. The marks on the object,
// which are field managers and annotations, only name them: anyone who may edit the object
// can write and remove them. A VidraResource owns the object if it has an apply of it under
// way or lists it in its inventory, which it does before it applies an object (ADR 20).
// One that is known to have applied the object counts even unmarked.
//
// It fails if the cache is unreadable.
func (a *Finder) CoOwners(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured) ([]CoOwner, error) {
	return a.coOwners(ctx, key, live, a.lookup())
}

// lookup returns a Lookup of VidraResources.
func (a *Finder) lookup() *Lookup { return &Lookup{Cache: a.VidraResources, Elsewhere: a.Elsewhere} }

func (a *Finder) coOwners(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured, lookup *Lookup) ([]CoOwner, error) {
	claims := slices.DeleteFunc(a.Index.Claims(key), func(c trigger.Claim) bool { return c.Owner == a.Claimant.Owner })
	marks := a.Claimant.marksOn(live)
	var owners []CoOwner
	for _, name := range a.candidates(marks, claims, live) { // none of nearly every object
		vr, elsewhere, err := lookup.Get(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("read VidraResource %s, which its marks name: %w", name, err)
		}
		if vr == nil {
			continue
		}
		manager := v1alpha1.InstallationOf(vr).FieldManager(name)
		claim, claimed := claimOf(claims, name)
		id := object.IdentityIn(live)
		entry := listedIn(vr, key.Cluster, id, live.GetUID())
		switch {
		case !claimed && entry == nil && !mayHold(vr, key.Cluster, id):
			continue // the mark was copied or forged
		case !marks.managers[manager] && !vr.DeletionTimestamp.IsZero():
			continue // it releases what it has, and owns no field of this
		}
		intact, known := a.Claimant.intact(vr, manager, claim, live)
		recorded := claimed && claim.Known && !claim.Applied.Unreverted && claim.Applied.UID == live.GetUID() || entry != nil && entry.UID == string(live.GetUID())
		owners = append(owners, CoOwner{
			Name: name, Manager: manager, Genuine: marks.managers[manager] && (intact || elsewhere || !known), Intact: marks.managers[manager] && intact,
			UnderWay: claim.InFlight || !claim.Known && isPending(vr, entry),
			Recorded: recorded, Owns: recorded || ownedBy(vr, manager, entry, live),
		})
	}
	slices.SortFunc(owners, func(a, b CoOwner) int { return strings.Compare(a.Name, b.Name) })
	return owners, nil
}

// marks are the parts of an object that name other VidraResources.
type marks struct {
	// managers applied the object under a name of Vidra.
	managers map[string]bool
	// named are the VidraResources in the annotations.
	named map[string]bool
}

// marksOn returns the marks on an object, of all installations, except our own.
func (s *Claimant) marksOn(live *unstructured.Unstructured) marks {
	found := marks{managers: map[string]bool{}, named: v1alpha1.OwnersNamed(live.GetAnnotations())}
	for _, manager := range ownership.Managers(live, v1alpha1.FieldManagerPrefix) {
		if manager != s.Manager {
			found.managers[manager] = true
		}
	}
	return found
}

// candidates returns the names of the VidraResources that the marks may mean, and of those
// that are known to have applied the object. The manager of a long name holds only part of
// it: the annotation and the claims have all of it. The names are unique in this cluster,
// whichever installation reconciles the VidraResource. Those whose field managers applied the object come first: a Lookup
// asks the API server for few.
func (a *Finder) candidates(m marks, claims []trigger.Claim, live *unstructured.Unstructured) []string {
	ranks := map[string]int{}
	applied := func(name string) bool { return m.managers[a.Claimant.Installation.FieldManager(name)] }
	for name := range m.named {
		ranks[name] = 1
	}
	for _, claim := range claims {
		if claim.Known && !claim.ExpectsRemoval && claim.Applied.UID == live.GetUID() || applied(claim.Owner.Name) {
			ranks[claim.Owner.Name] = 1
		}
	}
	for name := range ranks {
		if applied(name) {
			ranks[name] = 0
		}
	}
	for manager := range m.managers {
		name, _ := v1alpha1.ParseFieldManager(manager)
		ranks[name] = 0
	}
	delete(ranks, a.Claimant.Owner.Name) // as a VidraResource of the same name in another cluster sets it
	return slices.SortedFunc(maps.Keys(ranks), func(x, y string) int { return cmp.Or(cmp.Compare(ranks[x], ranks[y]), strings.Compare(x, y)) })
}

// claimOf returns the claim of a VidraResource among those on an object.
func claimOf(claims []trigger.Claim, name string) (trigger.Claim, bool) {
	i := slices.IndexFunc(claims, func(c trigger.Claim) bool { return c.Owner.Name == name })
	if i < 0 {
		return trigger.Claim{}, false
	}
	return claims[i], true
}

// mayHold reports whether a VidraResource that this Vidra is still to read may want an
// object, for instance one that was restored from a backup without its status: its
// manifest has the name of the object somewhere.
func mayHold(vr *v1alpha1.VidraResource, at string, id object.Identity) bool {
	return vr.Status.ObservedGeneration == 0 && vr.DeletionTimestamp.IsZero() && isAt(vr, at) &&
		(strings.Contains(vr.Spec.Manifest, id.Name) || len(vr.Spec.ManifestFrom) > 0)
}

// intact reports whether the fields of a manager in an object are the fields that its VidraResource applied, and known whether their digest is comparable. The
// digests of sensitive objects are sealed with the key of each installation, and those of objects that it applies in another version are of other
// paths: they are incomparable.
func (s *Claimant) intact(vr *v1alpha1.VidraResource, manager string, claim trigger.Claim, live *unstructured.Unstructured) (intact, known bool) {
	digest := trigger.DigestOf(live, manager, false, nil)
	expected := trigger.DigestOf(live, manager, false, claim.Applied.Tools)
	if claim.InFlight || claim.Known && !claim.Applied.Unreverted && claim.Applied.Digest == expected {
		return true, true
	}
	e := EntryOf(vr, object.IdentityIn(live))
	if e == nil {
		return false, true
	}
	sealed := (s.WithoutKeys || !s.Installation.Applies(manager)) && strings.HasPrefix(e.Digest, seal.Prefix)
	return e.Digest == digest.String(), !sealed && (e.Digest == "" || e.APIVersion == live.GetAPIVersion())
}

// isPending reports whether the status of a VidraResource may be still to list an apply of an object. entry is its inventory entry, or nil.
func isPending(vr *v1alpha1.VidraResource, entry *v1alpha1.ManagedResourceStatus) bool {
	return entry != nil && (entry.Digest == "" || vr.Status.ObservedGeneration != vr.Generation)
}

// ownedBy reports whether an object is another VidraResource's own by the rule of Owns. entry is its inventory entry, or nil.
func ownedBy(vr *v1alpha1.VidraResource, manager string, entry *v1alpha1.ManagedResourceStatus, live *unstructured.Unstructured) bool {
	other := Claimant{Owner: trigger.Owner{Name: vr.Name}, Installation: v1alpha1.InstallationOf(vr), Manager: manager}
	return other.Owns(live, entry)
}

// Crowded returns the refusal of an object that has MaxOwners already.
func Crowded(others []CoOwner) error {
	var names []string
	for _, other := range others {
		names = append(names, other.Name)
	}
	return &Refusal{v1alpha1.ReasonOwnershipConflict, fmt.Sprintf(
		"%d VidraResources own it already, and an object has %d owners at most: take it out of this manifest, or out of that of %s",
		len(others), MaxOwners, strings.Join(names, ", "))}
}
