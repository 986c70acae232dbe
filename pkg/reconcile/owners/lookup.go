package owners

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// maxElsewhere is how many VidraResources a Lookup asks the API server for. An object has MaxOwners owners at
// most; who may edit it can write any number of further names.
const maxElsewhere = 2 * MaxOwners

// Lookup reads the VidraResources that an object names: from the cache, and VidraResources of other shards, which the cache
// lacks, from the API server. The next ones after maxElsewhere count as absent.
type Lookup struct {
	Cache client.Reader
	// Elsewhere is nil where the cache has all VidraResources.
	Elsewhere client.Reader

	asked int
}

// Get returns a VidraResource, which must stay as it is, and reports whether it belongs to another shard; nil if it
// is absent.
func (l *Lookup) Get(ctx context.Context, name string) (vr *v1alpha1.VidraResource, elsewhere bool, err error) {
	vr, err = Cached(ctx, l.Cache, name)
	if vr != nil || err != nil || l.Elsewhere == nil || l.asked == maxElsewhere || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return vr, false, err
	}
	l.asked++
	vr = &v1alpha1.VidraResource{}
	if err := l.Elsewhere.Get(ctx, client.ObjectKey{Name: name}, vr); err != nil {
		return nil, false, client.IgnoreNotFound(err)
	}
	return vr, true, nil
}
