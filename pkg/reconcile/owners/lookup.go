package owners

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// maxElsewhere is how many VidraResources a Lookup asks the API server for. An object has MaxOwners owners at
// most; who may edit it can write any number of further names.
const maxElsewhere = 2 * MaxOwners

// maxAnswers is how many answers of the API server a Lookup keeps.
const maxAnswers = 2 * maxElsewhere

// Lookup reads the VidraResources that an object names: from the cache, and VidraResources of other shards, which the cache
// lacks, from the API server, once each. The next ones after maxElsewhere count as absent.
type Lookup struct {
	Cache client.Reader
	// Elsewhere is nil where the cache has all VidraResources.
	Elsewhere client.Reader

	// asked is the number of names of the present object that the API server was asked for, answers are its latest answers; nil for absent ones.
	asked   int
	answers map[string]*v1alpha1.VidraResource
}

// next begins with the names of another object.
func (l *Lookup) next() *Lookup {
	l.asked = 0
	return l
}

// Get returns a VidraResource, which must stay as it is, and reports whether it belongs to another shard; nil if it
// is absent.
func (l *Lookup) Get(ctx context.Context, name string) (vr *v1alpha1.VidraResource, elsewhere bool, err error) {
	vr, err = Cached(ctx, l.Cache, name)
	if vr != nil || err != nil || l.Elsewhere == nil || l.asked == maxElsewhere || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return vr, false, err
	}
	l.asked++
	vr, known := l.answers[name]
	if !known {
		vr = &v1alpha1.VidraResource{}
		switch err := l.Elsewhere.Get(ctx, client.ObjectKey{Name: name}, vr); {
		case object.IsAbsent(err, name):
			vr = nil
		case err != nil:
			return nil, false, err
		}
		if l.answers == nil || len(l.answers) == maxAnswers {
			l.answers = map[string]*v1alpha1.VidraResource{}
		}
		l.answers[name] = vr
	}
	return vr, vr != nil, nil
}
