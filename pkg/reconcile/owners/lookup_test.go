package owners

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestLookup asks the API server for VidraResources of other shards, and for few of the names that users forge.
func TestLookup(t *testing.T) {
	t.Parallel()
	named := func(name string) *v1alpha1.VidraResource {
		vr := &v1alpha1.VidraResource{}
		vr.Name = name
		return vr
	}
	elsewhere := &fixture.CacheOf{All: map[string]*v1alpha1.VidraResource{"api": named("api"), "web": named("other")}}
	l := &Lookup{Cache: &fixture.CacheOf{All: map[string]*v1alpha1.VidraResource{"web": named("web")}}, Elsewhere: elsewhere}
	vr, other, err := l.Get(t.Context(), "web")
	require.NoError(t, err)
	require.Equal(t, "web", vr.Name, "the cache comes first")
	require.False(t, other)
	vr, other, err = l.Get(t.Context(), "api")
	require.NoError(t, err)
	require.Equal(t, "api", vr.Name)
	require.True(t, other)
	for _, forged := range []string{"", "../secrets", "a b", "A"} {
		vr, _, err = l.Get(t.Context(), forged)
		require.NoError(t, err)
		require.Nil(t, vr)
	}
	require.Equal(t, 1, l.asked, "no request has such a name")
	for i := range 2 * maxElsewhere {
		vr, _, err = l.Get(t.Context(), fmt.Sprintf("forged-%d", i))
		require.NoError(t, err)
		require.Nil(t, vr)
	}
	require.Equal(t, maxElsewhere, l.asked)
	vr, _, err = l.Get(t.Context(), "api")
	require.NoError(t, err)
	require.Nil(t, vr, "it comes too late")
	vr, _, err = l.next().Get(t.Context(), "api")
	require.NoError(t, err)
	require.NotNil(t, vr, "each object has its own names")
	l.Elsewhere = nil
	vr, _, err = l.Get(t.Context(), "web")
	require.NoError(t, err)
	require.NotNil(t, vr, "the cache is asked without a limit")
}

// ofProxy answers with the text of a proxy that finds no API server.
type ofProxy struct{ client.Reader }

func (ofProxy) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "get", v1alpha1.Resource.GroupResource(), key.Name, "404 page not found", 0, true)
}

// TestTextOfAProxy: a text with 404 does not make a VidraResource absent, which owns an object, or has it in its manifest.
func TestTextOfAProxy(t *testing.T) {
	t.Parallel()
	nothing := &fixture.CacheOf{}
	l := &Lookup{Cache: nothing, Elsewhere: ofProxy{}}
	_, _, err := l.Get(t.Context(), "api")
	require.ErrorContains(t, err, "could not find")
	n := &Named{Cache: nothing, API: ofProxy{}}
	_, err = n.get(t.Context(), "api", listed{uid: "1"})
	require.ErrorContains(t, err, "could not find")
	n.API = nothing
	vr, err := n.get(t.Context(), "api", listed{uid: "1"})
	require.NoError(t, err)
	require.Nil(t, vr)
}

// TestOwnersAreAskedForInOrder: those whose field managers applied the object come before names in annotations.
func TestOwnersAreAskedForInOrder(t *testing.T) {
	t.Parallel()
	a := &Finder{Claimant: Claimant{Owner: trigger.Owner{Name: "web"}}}
	names := map[string]bool{"zeta": true}
	for i := range maxElsewhere {
		names[fmt.Sprintf("forged-%d", i)] = true
	}
	for _, manager := range []string{"vidra/zeta", v1alpha1.Installation("east").FieldManager("zeta")} {
		ordered := a.candidates(marks{named: names, managers: map[string]bool{manager: true}}, nil, nil)
		require.Equal(t, "zeta", ordered[0])
		require.True(t, slices.IsSorted(ordered[1:]))
		require.Len(t, ordered, len(names))
	}
}
