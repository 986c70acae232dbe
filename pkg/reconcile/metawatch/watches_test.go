package metawatch

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
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
	w.Sync(one, "", client, slices.Values([]Key{roles, bindings}))
	requireEnd(bindings)
	_, known := w.State(bindings)
	require.False(t, known)
	require.Eventually(t, func() bool { _, known := w.State(roles); return known }, time.Minute, time.Millisecond)
	w.Sync(other, "", client, slices.Values([]Key{roles}))
	w.Release(one)
	requireEnd(bindings)
	w.Sync(other, "", client, slices.Values([]Key(nil)))
	requireEnd(roles)
	require.Empty(t, ended)
}

// TestClaims: a watch of claims counts the changes that may end the stay of an object, and no others. A Lease is written each second.
func TestClaims(t *testing.T) {
	t.Parallel()
	lease := func(change func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
		at := metav1.Unix(1, 0)
		o := &metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: "leader", UID: "1", ResourceVersion: "1", Annotations: map[string]string{"vidraresource.infrahub.operators.com/keep": "true", "seen": "1"},
				ManagedFields: []metav1.ManagedFieldsEntry{
					{Manager: "vidra/bank", Operation: metav1.ManagedFieldsOperationApply, Time: &at},
					{Manager: "bank", Operation: metav1.ManagedFieldsOperationUpdate, Time: &at},
				},
			},
		}
		change(o)
		return o
	}
	later, leases := metav1.Unix(2, 0), schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	for name, tc := range map[string]struct {
		change func(*metav1.PartialObjectMetadata)
		counts bool
	}{
		"contents": {func(o *metav1.PartialObjectMetadata) {
			o.Generation, o.Annotations["seen"] = 2, "2"
			o.ManagedFields[1].Time, o.ManagedFields[1].FieldsV1 = &later, metav1.NewFieldsV1("{}")
			slices.Reverse(o.ManagedFields)
		}, false},
		"keep": {func(o *metav1.PartialObjectMetadata) {
			delete(o.Annotations, "vidraresource.infrahub.operators.com/keep")
		}, true},
		"owner":           {func(o *metav1.PartialObjectMetadata) { o.ManagedFields = o.ManagedFields[1:] }, true},
		"owner reference": {func(o *metav1.PartialObjectMetadata) { o.OwnerReferences = []metav1.OwnerReference{{Name: "pod"}} }, true},
		"deletion":        {func(o *metav1.PartialObjectMetadata) { o.DeletionTimestamp = &later }, true},
		"another object":  {func(o *metav1.PartialObjectMetadata) { o.UID = "2" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme := metadatafake.NewTestScheme()
			require.NoError(t, metav1.AddMetaToScheme(scheme))
			client := metadatafake.NewSimpleMetadataClient(scheme, lease(func(*metav1.PartialObjectMetadata) {}))
			events := make(chan bool, 10)
			w := &Watches{Changed: func(_ Key, existence bool) { events <- existence }, Ended: func(Key) {}}
			key, owner := Key{GVR: leases, Namespace: "shop", Name: "leader", Claims: true}, trigger.Owner{Name: "one"}
			w.Sync(owner, "", client, slices.Values([]Key{key}))
			t.Cleanup(func() { w.Release(owner) })
			require.True(t, <-events, "the first one")
			changed := lease(tc.change)
			changed.ResourceVersion = "2"
			require.NoError(t, client.Tracker().Update(leases, changed, "shop"))
			store := w.watched[key].informer.GetStore()
			require.Eventually(t, func() bool { return store.List()[0].(*metav1.PartialObjectMetadata).ResourceVersion == "2" }, time.Minute, time.Millisecond)
			require.NoError(t, client.Tracker().Delete(leases, "shop", "leader"))
			if tc.counts {
				require.False(t, <-events, "the change")
			}
			require.True(t, <-events, "the end")
			require.Empty(t, events)
		})
	}
}

// TestRefusedLater: a watch that the API server refuses after it had listed its objects counts as a change of them, as nothing shows their end then.
func TestRefusedLater(t *testing.T) {
	t.Parallel()
	scheme := metadatafake.NewTestScheme()
	require.NoError(t, metav1.AddMetaToScheme(scheme))
	client := metadatafake.NewSimpleMetadataClient(scheme)
	var refused atomic.Bool
	first := apiwatch.NewFake()
	client.PrependReactor("list", "roles", func(clienttesting.Action) (bool, runtime.Object, error) {
		return refused.Load(), nil, apierrors.NewForbidden(schema.GroupResource{Resource: "roles"}, "", nil)
	})
	client.PrependWatchReactor("roles", func(clienttesting.Action) (bool, apiwatch.Interface, error) {
		if refused.Load() {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "roles"}, "", nil)
		}
		return true, first, nil
	})
	events := make(chan bool, 10)
	w := &Watches{Changed: func(_ Key, existence bool) { events <- existence }, Ended: func(Key) {}}
	key, owner := Key{GVR: schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}, Namespace: "shop"}, trigger.Owner{Name: "one"}
	w.Sync(owner, "", client, slices.Values([]Key{key}))
	t.Cleanup(func() { w.Release(owner) })
	require.Eventually(t, func() bool { _, known := w.State(key); return known }, time.Minute, time.Millisecond)
	require.Empty(t, events)
	refused.Store(true)
	first.Stop()
	select {
	case existence := <-events:
		require.True(t, existence)
	case <-time.After(20 * time.Second):
		require.Fail(t, "nothing is told")
	}
	_, known := w.State(key)
	require.False(t, known)
}

// TestShares: no few owners take all watches, and one alone has as many as it needs.
func TestShares(t *testing.T) {
	t.Parallel()
	scheme := metadatafake.NewTestScheme()
	require.NoError(t, metav1.AddMetaToScheme(scheme))
	client := metadatafake.NewSimpleMetadataClient(scheme)
	w := &Watches{Changed: func(Key, bool) {}, Ended: func(Key) {}, Max: 512}
	watched := func(owner trigger.Owner, keys int) (number int) {
		t.Helper()
		var all []Key
		for i := range keys {
			all = append(all, Key{GVR: schema.GroupVersionResource{Version: "v1", Resource: "resourcequotas"}, Namespace: fmt.Sprint(owner.Name, i)})
		}
		w.Sync(owner, "", client, slices.Values(all))
		w.Sync(owner, "", client, slices.Values(all)) // takes no more
		t.Cleanup(func() { w.Release(owner) })
		for _, key := range all {
			if w.watched[key] != nil {
				number++
			}
		}
		return number
	}
	require.Equal(t, 16, watched(trigger.Owner{Name: "alone"}, 16))
	for i := range 100 {
		require.Positive(t, watched(trigger.Owner{Name: fmt.Sprint("greedy-", i)}, 16), i)
	}
	require.Equal(t, 1, watched(trigger.Owner{Name: "other"}, 1))
	w.Release(trigger.Owner{Name: "alone"})
	require.Less(t, len(w.watched), 512)
}

// TestSharesOfTenants: the accounts of one namespace take half of the watches at most, however many VidraResources they have.
func TestSharesOfTenants(t *testing.T) {
	t.Parallel()
	scheme := metadatafake.NewTestScheme()
	require.NoError(t, metav1.AddMetaToScheme(scheme))
	client := metadatafake.NewSimpleMetadataClient(scheme)
	w := &Watches{Changed: func(Key, bool) {}, Ended: func(Key) {}, Max: 512}
	watch := func(tenant string, owner int) bool {
		key := Key{GVR: schema.GroupVersionResource{Version: "v1", Resource: "resourcequotas"}, Namespace: fmt.Sprint(tenant, owner)}
		by := trigger.Owner{Name: key.Namespace}
		w.Sync(by, tenant, client, slices.Values([]Key{key}))
		t.Cleanup(func() { w.Release(by) })
		return w.watched[key] != nil
	}
	taken := 0
	for i := range 600 {
		if watch("hostile", i) {
			taken++
		}
	}
	require.Equal(t, 256, taken)
	for i := range 128 {
		require.True(t, watch("shop", i), i)
	}
	for i := range 128 {
		require.True(t, watch("", i), "Vidra itself may take what is left: %d", i)
	}
}
