package owners

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/trigger"
)

// OwnersElsewhere returns the field managers of other installations that applied an object
// and that are of no VidraResource of this cluster: proven are the owners in this cluster. Their
// VidraResources are in another cluster, so their existence is unproven. None counts for an
// object of the own cluster in the default installation, whose users would forge one.
func (s *Claimant) OwnersElsewhere(key trigger.ObjectKey, live *unstructured.Unstructured, proven []CoOwner) []CoOwner {
	if key.Cluster == "" && s.Installation == "" {
		return nil
	}
	var owners []CoOwner
	for manager := range s.marksOn(live).managers {
		known := slices.ContainsFunc(proven, func(other CoOwner) bool { return other.Manager == manager })
		if !known && !s.Installation.Applies(manager) {
			owners = append(owners, CoOwner{Manager: manager})
		}
	}
	slices.SortFunc(owners, func(a, b CoOwner) int { return strings.Compare(a.Manager, b.Manager) })
	return owners
}

// AllOwners returns the other owners of an object that is to be removed, of all installations.
func (a *Finder) AllOwners(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured) ([]CoOwner, error) {
	return a.allOwners(ctx, key, live, a.lookup())
}

func (a *Finder) allOwners(ctx context.Context, key trigger.ObjectKey, live *unstructured.Unstructured, lookup *Lookup) ([]CoOwner, error) {
	others, err := a.coOwners(ctx, key, live, lookup)
	if err != nil {
		return nil, err
	}
	return append(others, a.Claimant.OwnersElsewhere(key, live, others)...), nil
}
