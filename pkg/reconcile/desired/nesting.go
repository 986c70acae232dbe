package desired

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/manifest"
)

// maxHolders is how many VidraResources may hold one, directly or through others.
const maxHolders = 128

// VidraResourceKind is the kind of VidraResources.
var VidraResourceKind = schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: v1alpha1.Kind}

// HoldersOf returns the VidraResources that hold vr, from the annotations that name them
// and from holds, which returns the VidraResource of a name and reports whether it holds
// another one. An annotation alone is no proof: the holder's inventory has to list the
// VidraResource. Each one is considered once, so the work is bounded.
func HoldersOf(vr *v1alpha1.VidraResource, holds func(holder string, held *v1alpha1.VidraResource) (*v1alpha1.VidraResource, bool)) ([]string, error) {
	var all []string
	for next := []*v1alpha1.VidraResource{vr}; len(next) > 0; next = next[1:] {
		for _, name := range v1alpha1.Owners(next[0].Annotations) {
			if slices.Contains(all, name) {
				continue
			}
			holder, is := holds(name, next[0])
			if !is {
				continue
			}
			if len(all) == maxHolders {
				return nil, fmt.Errorf("more than %d VidraResources hold the VidraResource %s in their manifests, directly or in the "+
					"manifests of others: put it into fewer manifests, or nest them less deep", maxHolders, vr.Name)
			}
			all, next = append(all, name), append(next, holder)
		}
	}
	return all, nil
}

// holdsItself fails if a manifest holds the VidraResource that it is the manifest of, or
// one of its holders: it would apply and prune itself. Manifests inside the manifest are
// left unread. Each belongs to a VidraResource, which has this one among its holders once it
// exists, and is refused then.
func holdsItself(name string, holders []string, objects []manifest.Object) error {
	for _, object := range objects {
		held := object.GetName()
		switch {
		case object.GroupVersionKind().GroupKind() != VidraResourceKind:
		case held == name:
			return fmt.Errorf("%s: the manifest holds the VidraResource %s itself: take it out", object.Position, name)
		case slices.Contains(holders, held):
			return fmt.Errorf("%s: the manifest holds the VidraResource %s, whose manifest holds the VidraResource %s: take one of them out",
				object.Position, held, name)
		}
	}
	return nil
}
