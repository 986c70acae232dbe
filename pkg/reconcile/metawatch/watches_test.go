package metawatch

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestEnded: the end of a watch is told, whether its owners need it no more or the API server refuses it.
func TestEnded(t *testing.T) {
	t.Parallel()
	scheme := metadatafake.NewTestScheme()
	require.NoError(t, metav1.AddMetaToScheme(scheme))
	client := metadatafake.NewSimpleMetadataClient(scheme)
	roles := Key{GVR: schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}, Namespace: "shop"}
	bindings := roles
	bindings.GVR.Resource = "rolebindings"
	client.PrependReactor("list", "rolebindings", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(bindings.GVR.GroupResource(), "", nil)
	})
	ended := make(chan Key, 10)
	w := &Watches{Changed: func(Key, bool) {}, Ended: func(key Key) { ended <- key }}
	requireEnd := func(want Key) {
		t.Helper()
		select {
		case key := <-ended:
			require.Equal(t, want, key)
		case <-time.After(time.Minute):
			require.Fail(t, "the end is not told")
		}
	}
	one, other := trigger.Owner{Name: "one"}, trigger.Owner{Name: "other"}
	w.Sync(one, client, slices.Values([]Key{roles, bindings}))
	requireEnd(bindings)
	_, known := w.State(bindings)
	require.False(t, known)
	require.Eventually(t, func() bool { _, known := w.State(roles); return known }, time.Minute, time.Millisecond)
	w.Sync(other, client, slices.Values([]Key{roles}))
	w.Release(one)
	requireEnd(bindings)
	w.Sync(other, client, slices.Values([]Key(nil)))
	requireEnd(roles)
	require.Empty(t, ended)
}
