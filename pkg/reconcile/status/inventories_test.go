package status

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

func TestInventories(t *testing.T) {
	t.Parallel()
	inventory := func(digest string) []v1alpha1.ManagedResourceStatus {
		return []v1alpha1.ManagedResourceStatus{{Kind: "ConfigMap", Name: "page", Digest: digest}}
	}
	read := func(digest string) *v1alpha1.VidraResource {
		vr := &v1alpha1.VidraResource{Status: v1alpha1.VidraResourceStatus{ManagedResources: inventory(digest)}}
		vr.Name = "shop"
		return vr
	}
	var known Inventories
	require.False(t, known.Share(read("1")), "nothing was written")

	written := inventory("1")
	known.Write("shop", written)
	same := read("1")
	require.True(t, known.Share(same))
	require.Equal(t, inventory("1"), same.Status.ManagedResources)
	require.Same(t, unsafe.SliceData(written), unsafe.SliceData(same.Status.ManagedResources), "it is kept once")

	other := read("2")
	require.False(t, known.Share(other), "another client wrote it")
	require.Equal(t, inventory("2"), other.Status.ManagedResources)

	exempted := read("1")
	exempted.Status.ManagedResources[0].BreakGlass = &v1alpha1.BreakGlassStatus{}
	require.False(t, known.Share(exempted))

	known.Forget("shop")
	require.False(t, known.Share(read("1")))
}
