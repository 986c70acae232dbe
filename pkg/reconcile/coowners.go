package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// maxOwners is how many VidraResources may own an object together. The next one is refused.
const maxOwners = 16

// coOwner is another VidraResource that owns an object, or is about to.
type coOwner struct {
	// name is empty for one of another installation that is in another cluster; see
	// ownersElsewhere.
	name, manager string
	// genuine reports that what its manager owns in the object is what it applied there, or
	// may be, because an apply is under way. Otherwise another user of the API wrote under
	// its name.
	genuine bool
}

// claimant is as whom a VidraResource applies objects.
type claimant struct {
	owner trigger.Owner
	// installation is the one that this operator belongs to; manager is its field manager
	// for the owner.
	installation v1alpha1.Installation
	manager      string
}

// coOwnerFinder finds the other VidraResources that own an object. It is safe for concurrent use.
type coOwnerFinder struct {
	claimant
	index *trigger.Index
	// vidraResources reads them from the cache.
	vidraResources client.Reader
}

// coOwners returns the other VidraResources that own an object. The marks on the object,
// which are field managers and annotations, only name them: anyone who may edit the object
// can write and remove them. A VidraResource owns the object if it has an apply of it under
// way or lists it in its inventory, which it does before it applies an object (ADR 20).
// One that is known to have applied the object needs no mark.
//
// It fails if the cache cannot be read.
func (a *coOwnerFinder) coOwners(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured) ([]coOwner, error) {
	claims := slices.DeleteFunc(a.index.Claims(key), func(c trigger.Claim) bool { return c.Owner == a.owner })
	marks := a.marksOn(live)
	var owners []coOwner
	for name := range a.candidates(marks, claims, live) { // none of nearly every object
		vr, err := cached(ctx, a.vidraResources, name)
		if err != nil {
			return nil, fmt.Errorf("read VidraResource %s, which its marks name: %w", name, err)
		}
		if vr == nil {
			continue
		}
		manager := v1alpha1.InstallationOf(vr).FieldManager(name)
		claim, claimed := claimOf(claims, name)
		switch id := identityIn(live); {
		case !claimed && !holdsObject(vr, key.Cluster, id, live.GetUID()) && !mayHold(vr, key.Cluster, id):
			continue // the mark was copied or forged
		case !marks.managers[manager] && !vr.DeletionTimestamp.IsZero():
			continue // it releases what it has, and owns no field of this
		}
		owners = append(owners, coOwner{
			name: name, manager: manager, genuine: marks.managers[manager] && a.genuine(vr, manager, claim, live),
		})
	}
	slices.SortFunc(owners, func(a, b coOwner) int { return strings.Compare(a.name, b.name) })
	return owners, nil
}

// marks are what names other VidraResources on an object.
type marks struct {
	// managers applied the object under a name of Vidra.
	managers map[string]bool
	// named are the VidraResources in the annotations.
	named map[string]bool
}

// marksOn returns the marks on an object, of all installations, without our own.
func (s *claimant) marksOn(live *unstructured.Unstructured) marks {
	found := marks{managers: map[string]bool{}, named: v1alpha1.OwnersNamed(live.GetAnnotations())}
	for _, manager := range ownership.Managers(live, v1alpha1.FieldManagerPrefix) {
		if manager != s.manager {
			found.managers[manager] = true
		}
	}
	return found
}

// candidates returns the names of the VidraResources that the marks may mean, and of those
// that are known to have applied the object. The manager of a long name holds only part of
// it: the annotation and the claims have all of it. The names are unique in this cluster,
// whichever installation reconciles the VidraResource.
func (a *coOwnerFinder) candidates(m marks, claims []trigger.Claim, live *unstructured.Unstructured) map[string]bool {
	names := map[string]bool{}
	for _, claim := range claims {
		applied := claim.Known && !claim.ExpectsRemoval && claim.Applied.UID == live.GetUID()
		if name := claim.Owner.Name; applied || m.named[name] || m.managers[a.installation.FieldManager(name)] {
			names[name] = true
		}
	}
	for manager := range m.managers {
		name, _ := v1alpha1.ParseFieldManager(manager)
		names[name] = true
	}
	for name := range m.named {
		names[name] = true
	}
	delete(names, a.owner.Name) // as a VidraResource of the same name in another cluster sets it
	return names
}

// claimOf returns the claim of a VidraResource among those on an object.
func claimOf(claims []trigger.Claim, name string) (trigger.Claim, bool) {
	i := slices.IndexFunc(claims, func(c trigger.Claim) bool { return c.Owner.Name == name })
	if i < 0 {
		return trigger.Claim{}, false
	}
	return claims[i], true
}

// mayHold reports whether a VidraResource that this Vidra has never read may want an
// object, for instance one that was restored from a backup without its status: its
// manifest has the name of the object somewhere.
func mayHold(vr *v1alpha1.VidraResource, at string, id identity) bool {
	return vr.Status.ObservedGeneration == 0 && vr.DeletionTimestamp.IsZero() && isAt(vr, at) &&
		(strings.Contains(vr.Spec.Manifest, id.name) || len(vr.Spec.ManifestFrom) > 0)
}

// genuine reports whether a manager owns in an object what its VidraResource applied. The
// digests of sensitive objects are sealed with the key of each installation: that of another
// one cannot be compared, and counts. Its own operator reverts what it did not apply.
func (s *claimant) genuine(vr *v1alpha1.VidraResource, manager string, claim trigger.Claim, live *unstructured.Unstructured) bool {
	digest := trigger.DigestOf(live, manager, false, nil)
	expected := trigger.DigestOf(live, manager, false, claim.Applied.Tools)
	if claim.InFlight || claim.Known && !claim.Applied.Unreverted && claim.Applied.Digest == expected {
		return true
	}
	id := identityIn(live)
	return slices.ContainsFunc(vr.Status.ManagedResources, func(e v1alpha1.ManagedResourceStatus) bool {
		sealed := !s.installation.Applies(manager) && strings.HasPrefix(e.Digest, seal.Prefix)
		return e.Name == id.name && identityOf(&e) == id && (sealed || e.Digest == digest.String())
	})
}

// ownershipConflict returns an ownershipConflict if the conflict with which the API server
// refused the apply is with a VidraResource that owns the field, or with one of another
// installation, unless an edit is reverted or spec.adopt says to take the field: anyone who may
// edit the object can apply it under such a name. others are the other owners of the object.
func (r request) ownershipConflict(live *unstructured.Unstructured, others []coOwner) error {
	var elsewhere []coOwner
	if r.settings.adopt != v1alpha1.AdoptAlways && !r.edited(live) {
		elsewhere = r.settings.ownersElsewhere(r.key, live, others)
	}
	others = append(slices.DeleteFunc(others, func(other coOwner) bool { return !other.genuine }), elsewhere...)
	return ownershipConflictIn(r.refused, func(manager string) (*coOwner, bool) {
		i := slices.IndexFunc(others, func(other coOwner) bool { return other.manager == manager })
		if i < 0 {
			return nil, false
		}
		return &others[i], true
	})
}

// crowded returns the refusal of an object that has maxOwners already.
func crowded(others []coOwner) error {
	var names []string
	for _, other := range others {
		names = append(names, other.name)
	}
	return &refusal{v1alpha1.ReasonOwnershipConflict, fmt.Sprintf(
		"%d VidraResources own it already, and an object has %d owners at most: take it out of this manifest, or out of that of %s",
		len(others), maxOwners, strings.Join(names, ", "))}
}
