package insight

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/source"
)

// halfSilent is a source that never answers for one object. The others are empty.
type halfSilent struct{ source.Source }

func (halfSilent) Fetch(ctx context.Context, r source.Request) (*source.Content, error) {
	if r.Key.Name == "silent" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &source.Content{}, nil
}

// TestManifestBesideASilentOne: a manifest whose source never answers leaves the others known.
func TestManifestBesideASilentOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var given []*v1alpha1.VidraResource
		for _, name := range []string{"silent", "a", "b", "c"} {
			vr := &v1alpha1.VidraResource{}
			vr.Name, vr.Spec.ManifestFrom = name, []v1alpha1.ManifestSource{{Kind: source.ConfigMap, Name: name, Namespace: "shop", Key: "a"}}
			given = append(given, vr)
		}
		m := newMoves(&Client{sources: source.Kinds{source.ConfigMap: halfSilent{}}}, given)
		m.others = func(context.Context) ([]*v1alpha1.VidraResource, error) { return nil, nil }
		id := object.Identity{Namespace: "shop", Name: "page"}
		receivers, err := m.named.Receivers(t.Context(), "me", "", []object.Identity{id}, time.Now())
		require.NoError(t, err)
		require.Len(t, receivers[id], 1)
		require.Equal(t, "silent", receivers[id][0].VidraResource.Name)
	})
}
