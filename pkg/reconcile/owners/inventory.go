package owners

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// Cached returns a VidraResource from the cache, which shares it: it must stay as it is.
// It returns nil if it is absent.
func Cached(ctx context.Context, reader client.Reader, name string) (*v1alpha1.VidraResource, error) {
	vr := &v1alpha1.VidraResource{}
	err := reader.Get(ctx, client.ObjectKey{Name: name}, vr, &client.GetOptions{UnsafeDisableDeepCopy: ptr.To(true)})
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return vr, nil
}

// HoldsObject reports whether the inventory of a VidraResource lists an object of the
// cluster at. The inventory is written before an object is (ADR 7), so a VidraResource
// owns only objects that it lists. The UID counts, too, because the API
// server may serve one object in several groups, and a cluster may have several URLs. An entry without UID
// counts at each URL: the apply may be under way.
func HoldsObject(vr *v1alpha1.VidraResource, at string, id object.Identity, uid types.UID) bool {
	return listedIn(vr, at, id, uid) != nil
}

// EntryOf returns the inventory entry of an object, or nil.
func EntryOf(vr *v1alpha1.VidraResource, id object.Identity) *v1alpha1.ManagedResourceStatus {
	for i := range vr.Status.ManagedResources {
		if e := &vr.Status.ManagedResources[i]; e.Name == id.Name && object.IdentityOf(e) == id {
			return e
		}
	}
	return nil
}

// listedIn returns the entry of the inventory through which HoldsObject lists an object, an entry with its UID first, or
// nil.
func listedIn(vr *v1alpha1.VidraResource, at string, id object.Identity, uid types.UID) *v1alpha1.ManagedResourceStatus {
	here := isAt(vr, at)
	var named *v1alpha1.ManagedResourceStatus
	for _, entries := range [][]v1alpha1.ManagedResourceStatus{vr.Status.ManagedResources, FirstInventory(vr)} {
		for i := range entries {
			switch e := &entries[i]; {
			case uid != "" && e.UID == string(uid):
				return e
			case named == nil && (here || e.UID == "") && e.Name == id.Name && object.IdentityOf(e) == id:
				named = e
			}
		}
	}
	return named
}

// isAt reports whether a cluster is, or may be, the destination of a VidraResource.
func isAt(vr *v1alpha1.VidraResource, at string) bool {
	if access.IsLocal(vr.Spec.Destination.Server) {
		return at == ""
	}
	return cluster.MayResolveTo(vr.Spec.Destination.Server, at)
}
