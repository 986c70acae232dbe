package trigger

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// crowdedConfigMap is a ConfigMap that our manager applied, with forged entries of n more
// field managers of Vidra, each of which owns something in a map that is ours, and with
// the names of n owners.
func crowdedConfigMap(n int) *unstructured.Unstructured {
	u := configMap("blue", "100")
	entries, _, _ := unstructured.NestedSlice(u.Object, "metadata", "managedFields")
	annotations := map[string]string{v1alpha1.OwnerAnnotation: strings.Repeat("x,", n)}
	for i := range n {
		entries = append(entries, map[string]any{
			"manager": fmt.Sprintf("vidra/forged-%d", i), "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
			"time": "2026-01-02T03:04:05Z", "fieldsV1": map[string]any{"f:data": map[string]any{fmt.Sprintf("f:k%d", i): map[string]any{}}},
		})
		annotations[v1alpha1.OwnerAnnotationKey(fmt.Sprintf("forged-%d", i))] = fmt.Sprintf("forged-%d", i)
	}
	if err := unstructured.SetNestedSlice(u.Object, entries, "metadata", "managedFields"); err != nil {
		panic(err)
	}
	u.SetAnnotations(annotations)
	return u
}

// TestWorkPerEventIsLinear gives an object as many forged owners as the API server takes.
// An event of it costs less than to decode the object, which the informer has done before.
func TestWorkPerEventIsLinear(t *testing.T) {
	const forged = 8_000
	f := NewFactory(NewIndex())
	f.index.Load(Owner{Name: "shop"}, map[ObjectKey]Applied{key: appliedAt("blue", "100")})
	transform := f.TransformFor("", configMaps)
	u := crowdedConfigMap(forged)
	text, err := u.MarshalJSON()
	require.NoError(t, err)
	decode := fixture.ProcessorTime(t, func() { require.NoError(t, (&unstructured.Unstructured{}).UnmarshalJSON(text)) })
	event := fixture.ProcessorTime(t, func() {
		_, err := transform(u)
		require.NoError(t, err)
	})
	t.Logf("%d owners in %d bytes: %s to decode it, %s for its event", forged, len(text), decode, event)
	require.Less(t, event, decode)
}

// TestForgedOwnersAreNotQueued has objects that no VidraResource claims name owners. None of them is put into the queue, and nothing is kept for more of
// them than an object may have.
func TestForgedOwnersAreNotQueued(t *testing.T) {
	cases := map[string]struct {
		reason        string
		forged, owned int
	}{
		"Few":     {"They may be owners that are not known yet.", maxUnknown / 2, maxUnknown/2 + 1},
		"TooMany": {"They are forged.", 20_000, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := NewFactory(NewIndex())
			queue := priorityqueue.New[reconcile.Request](t.Name())
			defer queue.ShutDown()
			require.NoError(t, f.Source().Start(t.Context(), queue))
			u := crowdedConfigMap(tc.forged)
			annotations := u.GetAnnotations()
			annotations[v1alpha1.OwnerAnnotation] = "x"
			u.SetAnnotations(annotations)
			kept, err := f.TransformFor("", configMaps)(u)
			require.NoError(t, err)
			require.Len(t, kept.(*Snapshot).owned, tc.owned, tc.reason)
			f.HandlerFor("", configMaps).OnAdd(kept, false)
			require.Zero(t, queue.Len(), "a VidraResource has an event of its own")
			require.Empty(t, f.pending.causes)
		})
	}
}

// TestDigestOfACrowdedObject finds what is ours among forged entries.
func TestDigestOfACrowdedObject(t *testing.T) {
	t.Parallel()
	want, recorded := ownership.Of(configMap("blue", "100"), manager)
	require.True(t, recorded)
	got, recorded := ownership.Of(crowdedConfigMap(1000), manager)
	require.True(t, recorded)
	require.Equal(t, want, got)
}
